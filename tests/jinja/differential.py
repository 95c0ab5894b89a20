#!/usr/bin/python3
"""Compares an engine with Python Jinja2 on generated templates and values.

    differential.py --cmd "berth jinja-batch" [--count 3000] [--seed 1] [--show 20]

Deterministic for a seed. Both must give the same output, or errors that run.py takes for the same, on the
same line. Status 1 when they differ, 77 when Jinja2 is not installed."""

import argparse
import json
import random
import re
import shlex
import subprocess
import sys
import warnings

import run as scorer

try:
    import jinja2
    from jinja2.sandbox import SandboxedEnvironment
except ImportError:
    print("python3-jinja2 is not installed")
    sys.exit(77)

warnings.simplefilter("ignore")

CONTEXT = {
    "i": 3, "j": -7, "z": 0, "f": 2.5, "g": -0.125, "big": 12345678901234567890123, "t": True, "n": None,
    "s": "Hello World", "e": "", "u": "Straße Ünï 日本 😀", "ws": "  a\tb\n c  ", "csv": "a,b,,c", "num": "42",
    "fl": "3.75", "html": "<b>\"x\" & 'y'</b>", "path": "s3://bucket/key.tar.gz", "ml": "one\ntwo\n\n  three\n",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "B"], "ll": [[1, 2], [3, 4]], "lm": [1, "a", None, 2.5, True], "le": [],
    "d": {"b": 1, "a": 2, "C": 3}, "de": {}, "dn": {"x": {"y": [1, {"k": "v"}]}, "items": 5},
    "users": [{"name": "bob", "age": 30, "tags": ["x"]}, {"name": "Al", "age": 25, "tags": []},
              {"name": "cy", "age": 30, "tags": ["x", "y"], "extra": 1}],
    "words": "The quick brown fox jumps over the lazy dog-like creature at www.example.com (really).",
}
NUMS = ["i", "j", "z", "f", "g", "big", "t", "0", "1", "7", "2.0", "-3", "1e3", "10", "0.1", "true"]
STRS = ["s", "e", "u", "ws", "csv", "num", "fl", "html", "path", "ml", "words", "'abc'", "\"q'q\"", "'%s-%d'",
        "'{} {}'", "'a b c'", "'ß'", "'\\n'", "'x'", "','", "' '"]
LISTS = ["l", "ls", "ll", "lm", "le", "users", "[1, 2, 3]", "['x', 'y']", "(1, 'a')", "range(4)", "range(5, 0, -2)",
         "d.items()", "d.keys()", "d.values()", "[none, true]", "[[1], [2, 3]]", "('k', 2)"]
DICTS = ["d", "de", "dn", "users[0]", "{'k': 1, 'l': [2]}", "dict(a=1, b='x')", "{1: 'a', 2.5: 'b', none: 'c'}"]
OTHERS = ["n", "nope", "nope.x", "d.zz", "l[9]", "s.nope", "namespace(a=1)", "true", "loop", "d.get('zz')", "s|e", "html|safe"]

FILTERS = {
    "abs": [""], "attr": ["'a'", "'name'", "'upper'", "'__class__'"], "batch": ["2", "3, '-'", "0"], "capitalize": [""],
    "center": ["", "9", "20"], "count": [""], "d": ["", "'x'", "1, true"], "default": ["'dd'", "'dd', true", "default_value=3"],
    "dictsort": ["", "true", "by='value'", "reverse=true", "false, 'value', true"], "e": [""], "escape": [""],
    "filesizeformat": ["", "true"], "first": [""], "float": ["", "1.5"], "forceescape": [""],
    "format": ["1", "'a', 2", "x=1", "f"], "groupby": ["'age'", "'name'", "'zz', default='q'", "0", "'name', case_sensitive=true"],
    "indent": ["", "2", "2, true", "'>>'", "width=3, first=true, blank=true"], "int": ["", "7", "0, 16", "base=8"],
    "join": ["", "', '", "d='-'", "'|', attribute='name'"], "last": [""], "length": [""], "list": [""], "lower": [""],
    "items": [""], "map": ["'upper'", "attribute='name'", "'int'", "attribute='zz', default='q'", "'default', 'x'", "", "'join', '-'"],
    "min": ["", "true", "attribute='age'"], "max": ["", "case_sensitive=true", "attribute='name'"], "pprint": [""],
    "reject": ["", "'odd'", "'none'", "'gt', 1"], "rejectattr": ["'age'", "'name', 'eq', 'bob'", "'extra', 'defined'"],
    "replace": ["'a', 'b'", "'l', 'LL', 1", "' ', ''", "'', '-'"], "reverse": [""], "round": ["", "1", "-1", "1, 'ceil'", "0, 'floor'", "method='x'"],
    "safe": [""], "select": ["", "'even'", "'string'", "'in', [1, 2]", "'nosuch'"], "selectattr": ["'age'", "'age', 'gt', 26", "'extra'", "'tags'"],
    "slice": ["2", "3, 'f'", "0"], "sort": ["", "true", "case_sensitive=true", "attribute='age'", "attribute='age,name'", "reverse=true, attribute='name'"],
    "string": [""], "striptags": [""], "sum": ["", "attribute='age'", "start=10", "start=[]"], "title": [""], "trim": ["", "'a'", "' H'"],
    "truncate": ["", "9", "5, true", "12, false, '~'", "10, leeway=0", "3"], "unique": ["", "true", "attribute='age'"], "upper": [""],
    "urlencode": [""], "urlize": ["", "10", "nofollow=true", "target='_blank', rel='a b'"], "wordcount": [""],
    "wordwrap": ["10", "", "7, false", "5, true, '|'", "12, break_on_hyphens=false"], "xmlattr": ["", "false"], "tojson": ["", "2", "indent=1"],
    "nosuchfilter": [""],
}
TESTS = {
    "odd": "", "even": "", "divisibleby": "3", "defined": "", "undefined": "", "filter": "", "test": "", "none": "", "boolean": "",
    "false": "", "true": "", "integer": "", "float": "", "lower": "", "upper": "", "string": "", "mapping": "", "number": "",
    "sequence": "", "iterable": "", "callable": "", "sameas": "none", "escaped": "", "in": "[1, 2, 'a']", "eq": "1", "ne": "'x'",
    "gt": "2", "ge": "2", "lt": "'m'", "le": "0", "==": None, "nosuchtest": "",
}
METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip('aH ')", "rstrip()", "split()",
    "split(',')", "split(' ', 1)", "rsplit('/', 1)", "rsplit(none, 1)", "splitlines()", "splitlines(true)", "partition('/')",
    "rpartition('.')", "replace('a', 'X')", "replace('l', '', 1)", "find('o')", "rfind('o')", "index('b')", "count('a')", "count('')",
    "startswith('s')", "endswith(('z', 'd'))", "join(['1', '2'])", "join(ls)", "zfill(8)", "ljust(9, '.')", "rjust(9)", "center(11, '*')",
    "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()",
    "isidentifier()", "isprintable()", "isascii()", "expandtabs(4)", "encode()", "format(1, 'b')", "format(a=1)", "removeprefix('s')",
    "removesuffix('d')", "items()", "keys()|list", "values()|list", "get('a')", "get('zz', 9)", "pop('a')", "copy()", "setdefault('q', 1)",
    "update({'a': 9})", "popitem()", "fromkeys('ab')", "append(5)", "extend([1])", "insert(0, 'i')", "pop()", "pop(0)", "remove(1)",
    "reverse()", "sort()", "clear()", "index(1)", "count(1)", "bit_length()", "is_integer()", "real", "imag", "as_integer_ratio()",
    "conjugate()", "__len__()", "__class__", "nosuch", "nosuch()", "name", "age", "x.y", "0", "1.0", "hex()",
]
SPECS = ["'%s'", "'%d'", "'%5.2f'", "'%-8s|'", "'%05d'", "'%x'", "'%o'", "'%e'", "'%g'", "'%r'", "'%c'", "'%+d'", "'%%'", "'%10.3e'", "'%s %s'",
         "'%(a)s'", "'%i%%'", "'%#x'", "'% d'", "'%.3s'", "'%*d'", "'%G'", "'%X'", "'%a'", "'%.0f'", "'%u'"]
FORMATS = ["'{}'", "'{:>10}'", "'{:<8}|'", "'{:^9}'", "'{:05}'", "'{:.2f}'", "'{:,}'", "'{:+}'", "'{:x}'", "'{:#b}'", "'{:e}'", "'{:.3}'",
           "'{:%}'", "'{!r}'", "'{0}{0}'", "'{a}'", "'{0[0]}'", "'{:*^12}'", "'{:_}'", "'{:g}'", "'{:08.3f}'", "'{{}}{}'", "'{:d}'", "'{:s}'",
           "'{:>{w}}'", "'{'", "'{:010,}'", "'{:n}'", "'{:.0f}'", "'{:c}'", "'{:o}'", "'{:-}'", "'{: }'", "'{0.real}'"]
OPS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def atom(self):
        pick = self.r.random()
        pool = NUMS if pick < .25 else STRS if pick < .5 else LISTS if pick < .7 else DICTS if pick < .85 else OTHERS
        return self.r.choice(pool)

    def filter(self, value):
        name = self.r.choice(list(FILTERS))
        args = self.r.choice(FILTERS[name])
        return "%s|%s%s" % (value, name, "(%s)" % args if args else "")

    def test(self, value):
        name = self.r.choice(list(TESTS))
        arg = TESTS[name]
        if arg is None:
            name, arg = "eq", "1"
        word = "is not" if self.r.random() < .2 else "is"
        return "(%s %s %s%s)" % (value, word, name, "(%s)" % arg if arg and self.r.random() < .5 else " " + arg)

    def expr(self, depth=0):
        if depth > 3:
            return self.atom()
        pick = self.r.random()
        inner = lambda: self.expr(depth + 1)
        if pick < .2:
            return self.atom()
        if pick < .45:
            return self.filter(inner())
        if pick < .53:
            return self.test(inner())
        if pick < .68:
            value = inner()
            return "%s.%s" % (value if value.isidentifier() else "(%s)" % value, self.r.choice(METHODS))
        if pick < .82:
            return "(%s %s %s)" % (inner(), self.r.choice(OPS), inner())
        if pick < .86:
            parts = [self.r.choice(["", "0", "1", "-1", "2", "-2", "9"]) for _ in range(3)]
            return "(%s)[%s]" % (inner(), self.r.choice(["0", "-1", "'a'", "'name'", ":".join(parts), ":".join(parts[:2])]))
        if pick < .89:
            return "(%s if %s else %s)" % (inner(), inner(), inner())
        if pick < .91:
            return "(%s %% %s)" % (self.r.choice(SPECS), self.r.choice([inner(), "(%s,)" % inner(), "(%s, %s)" % (inner(), inner()), "d"]))
        if pick < .93:
            return "%s.format(%s)" % (self.r.choice(FORMATS), self.r.choice([inner(), "%s, w=9" % inner(), "a=%s" % inner()]))
        if pick < .95:
            return "[%s, %s]" % (inner(), inner())
        if pick < .97:
            return "{%s: %s}" % (self.r.choice(["'k'", "1", inner()]), inner())
        return "(%s %s)" % (self.r.choice(["not", "-", "+"]), inner())

    def space(self):
        return self.r.choice(["", "", " ", "\n", "  ", "x", "\n  "])

    def tag(self, text):
        left, right = self.r.choice(["", "", "", "-", "+"]), self.r.choice(["", "", "", "-", "+"])
        return "{%%%s %s %s%%}" % (left, text, right)

    def body(self, depth, loop=False):
        return "".join(self.statement(depth + 1, loop) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth=0, loop=False):
        r, pick = self.r, self.r.random()
        name = r.choice(["a", "b", "x", "l", "s"])
        if depth > 2 or pick < .35:
            value = r.choice(["loop.index", "loop.last", "loop.length", "loop.cycle('p', 'q')", "loop.previtem", "loop.nextitem",
                              "loop.changed(x)", "loop.revindex0", "x", "loop"]) if loop and r.random() < .5 else self.expr(1)
            return self.space() + "{{ %s }}" % r.choice([value, "x", "a", "b", value]) + self.space()
        if pick < .5:
            extra = r.choice(["", "", " if x", " if x is defined", " recursive" if r.random() < .3 else ""])
            other = self.tag("else") + self.body(depth, loop) if r.random() < .3 else ""
            control = self.tag("if x") + self.tag(r.choice(["break", "continue"])) + self.tag("endif") if r.random() < .15 else ""
            return (self.tag("for %s in %s%s" % (r.choice(["x", "x", "a, b"]), r.choice(LISTS + DICTS), extra)) + self.body(depth, True) +
                    control + other + self.tag("endfor"))
        if pick < .62:
            middle = self.tag("elif " + self.expr(2)) + self.body(depth, loop) if r.random() < .3 else ""
            other = self.tag("else") + self.body(depth, loop) if r.random() < .5 else ""
            return self.tag("if " + self.expr(2)) + self.body(depth, loop) + middle + other + self.tag("endif")
        if pick < .74:
            return self.tag("set %s = %s" % (name, self.expr(2)))
        if pick < .78:
            return self.tag("set %s%s" % (name, r.choice(["", "|upper", "|trim|length"]))) + self.body(depth, loop) + self.tag("endset")
        if pick < .83:
            return self.tag("with %s = %s, x = %s" % (name + "w", self.expr(2), self.expr(2))) + self.body(depth, loop) + self.tag("endwith")
        if pick < .89:
            call = r.choice(["m(1)", "m()", "m(x, 2)", "m(b=3)", "m(1, 2, 3)", "m(q=1)"])
            special = r.choice(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}"])
            return (self.tag("macro m(a, b=%s)" % self.expr(3)) + special + self.body(depth) + self.tag("endmacro") +
                    r.choice(["{{ %s }}" % call, self.tag("call %s" % call) + self.body(depth) + self.tag("endcall")]))
        if pick < .93:
            return self.tag("filter " + r.choice(["upper", "indent(2)", "replace('a', 'b')|title", "escape"])) + self.body(depth, loop) + self.tag("endfilter")
        if pick < .95:
            return self.tag("autoescape " + r.choice(["true", "false", "t"])) + self.body(depth, loop) + self.tag("endautoescape")
        if pick < .97:
            return r.choice(["{# note #}", "{#- c -#}", "{% raw %}{{ x }}{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}"])
        return self.tag(r.choice(["include 'inc'", "include 'nope' ignore missing", "import 'lib' as m2", "from 'lib' import lm",
                                  "from 'lib' import lm, nope with context", "do l.append(1)"]))

    def template(self):
        if self.r.random() < .55:
            return "{{ %s }}" % self.expr()
        return "".join(self.statement() for _ in range(self.r.randint(1, 4)))


TEMPLATES = {
    "inc": "[{{ x }}{{ a }}{{ loop is defined }}]",
    "lib": "{% macro lm(a=1) %}<{{ a }}{{ x }}>{% endmacro %}{% set v = [1, 2] %}",
}


def reference(source, options, templates):
    env = SandboxedEnvironment(
        undefined=jinja2.StrictUndefined if options["undefined"] == "strict" else jinja2.Undefined,
        trim_blocks=options["trim_blocks"], lstrip_blocks=options["lstrip_blocks"],
        keep_trailing_newline=options["keep_trailing_newline"],
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        loader=jinja2.DictLoader({**templates, "main": source}))
    try:
        return {"output": env.get_template("main").render(json.loads(json.dumps(CONTEXT)))}
    except jinja2.TemplateSyntaxError as e:
        return {"error": type(e).__name__, "line": e.lineno, "message": e.message}
    except SyntaxError as e:
        return {"error": "TemplateSyntaxError", "line": None, "message": str(e)}
    except Exception as e:
        line, tb = None, e.__traceback__
        while tb:
            if tb.tb_frame.f_code.co_filename == "<template>":
                line = tb.tb_lineno
            tb = tb.tb_next
        return {"error": type(e).__name__, "line": line, "message": str(e)}


def skip(expected):
    """What cannot be the same: addresses, Python's own limits, errors of Jinja2's constant folding."""
    text = expected.get("output", "").lower()
    if "error" in expected and expected["line"] is None and "Syntax" not in expected["error"]:
        return True
    return "generator" in re.sub("[^a-z]", "", text) or " object " in text or "bound method" in text or expected.get("error") in ("RecursionError", "MemoryError", "OverflowError")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cmd", required=True)
    ap.add_argument("--count", type=int, default=3000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--show", type=int, default=20)
    a = ap.parse_args()
    maker = Maker(a.seed)
    engine = subprocess.Popen(shlex.split(a.cmd), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wrong = skipped = 0
    for number in range(a.count):
        source = maker.template()
        options = {"trim_blocks": maker.r.random() < .3, "lstrip_blocks": maker.r.random() < .3,
                   "keep_trailing_newline": maker.r.random() < .3,
                   "undefined": "strict" if maker.r.random() < .25 else "default", "extensions": ["do", "loopcontrols"]}
        case = {"id": str(number), "template": source, "templates": TEMPLATES, "context": CONTEXT, "options": options}
        engine.stdin.write((json.dumps(case) + "\n").encode())
        engine.stdin.flush()
        line = engine.stdout.readline()
        if not line:
            print("the engine died on", repr(source))
            return 1
        answer = json.loads(line)
        expected = reference(source, options, TEMPLATES)
        if skip(expected):
            skipped += 1
            continue
        case["expect"] = expected
        ok, why = scorer.judge(case, answer)
        if ok:
            continue
        wrong += 1
        if wrong <= a.show:
            print("%d %s\n  template %r\n  strict %s trim %s lstrip %s\n  jinja2 %s\n  engine %s" % (
                number, why, source, options["undefined"] == "strict", options["trim_blocks"], options["lstrip_blocks"],
                json.dumps(expected, ensure_ascii=False)[:300],
                json.dumps({k: v for k, v in answer.items() if k != "id"}, ensure_ascii=False)[:300]))
    engine.stdin.close()
    engine.wait()
    print("%d templates, %d differ, %d not comparable" % (a.count, wrong, skipped))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

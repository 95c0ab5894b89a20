#!/usr/bin/env python3
"""schema-gen - makes src/objects/schema_{meta,core,groups}.def from facts about the Kubernetes API.

    go run facts.go > facts.json         # see README.md
    ./schema-gen.py facts.json swagger.json internal.go ../../src/objects

swagger.json (which fields are required) is api/openapi-spec/swagger.json of k8s.io/kubernetes, internal.go (how
server-side apply merges) applyconfigurations/internal/internal.go of k8s.io/client-go. DOC("...") of the tables
that are there is ours, written by hand, and kept.
"""
import json
import re
import sys
from pathlib import Path

import yaml

PACKAGES = {
    "k8s.io/apimachinery/pkg/apis/meta/v1": ("META", "meta"),
    "k8s.io/api/core/v1": ("CORE", "core"),
    "k8s.io/api/authentication/v1": ("AUTHENTICATION", "groups"),
    "k8s.io/api/authorization/v1": ("AUTHORIZATION", "groups"),
    "k8s.io/api/batch/v1": ("BATCH", "groups"),
    "k8s.io/api/coordination/v1": ("COORDINATION", "groups"),
    "k8s.io/api/discovery/v1": ("DISCOVERY", "groups"),
    "k8s.io/api/policy/v1": ("POLICY", "groups"),
    "k8s.io/api/scheduling/v1": ("SCHEDULING", "groups"),
    "k8s.io/api/storage/v1": ("STORAGE", "groups"),
    "k8s.io/metrics/pkg/apis/metrics/v1beta1": ("METRICS", "groups"),
}
TITLES = {
    "meta": "what all objects share",
    "core": "the core group, v1",
    "groups": "the other groups of Kubernetes",
}
GO_NAMES = {
    "STRING": "string",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "DOUBLE": "float64",
    "BYTES": "[]uint8",
    "QUANTITY": "resource.Quantity",
    "TIME": "v1.Time",
    "MICRO_TIME": "v1.MicroTime",
    "INT_OR_STRING": "intstr.IntOrString",
}
# Facts that the sources have in another form than one field, one number.
UNNUMBERED = {("UserInfo", "extra"), ("PodMetrics", "window"), ("NodeMetrics", "window")}


# Types whose name another package has, too: (as in the tables, of Kubernetes).
RENAMED = {"EndpointSlicePort": "EndpointPort"}


def openapi_name(type_):
    path = type_["package"].split("/")
    host = ".".join(reversed(path[0].split(".")))
    return ".".join([host, *path[1:], RENAMED.get(type_["name"], type_["name"])])


def load_merge(path):
    """internal.go -> {openapi type name: (atomic, {field: type description})}"""
    text = Path(path).read_text()
    text = text[text.index("YAMLObject(`") + len("YAMLObject(`") :]
    result = {}
    for row in yaml.load(text[: text.index("`")], Loader=yaml.CSafeLoader)["types"]:
        body = row.get("map", {})
        fields = {f["name"]: f["type"] for f in body.get("fields", [])}
        result[row["name"]] = (body.get("elementRelationship") == "atomic", fields)
    return result


def default_go(types, field):
    name = GO_NAMES.get(field["base"], "?")
    if field["base"] == "MESSAGE":
        name = types[field["type"]]["package"].split("/")[-1] + "." + field["type"]
    return {"ONE": "", "LIST": "[]", "MAP": "map[string]"}[field["shape"]] + name


def merge_options(field, described, types, merge):
    """The macro that names the field's shape, and its merge options."""
    options = []
    strategy = field.get("patch", "").split(",")
    shape, message = field["shape"], field["base"] == "MESSAGE"
    if shape == "LIST":
        if "merge" in strategy:
            options.append(f'PATCH_KEY("{field["key"]}")' if field.get("key") else "PATCH_SET")
        if "retainKeys" in strategy:
            options.append("RETAIN_KEYS")
        listing = described.get("list", {})
        if listing.get("elementRelationship") == "associative":
            keys = ",".join(listing.get("keys", []))
            options.append(f'APPLY_KEYS("{keys}")' if keys else "APPLY_SET")
        return ("MESSAGES" if message else "LIST"), options
    if shape == "MAP":
        atomic = described.get("map", {}).get("elementRelationship") == "atomic"
        return ("MAP_ATOMIC" if atomic else "MAP"), options
    if message:
        atomic = merge.get(openapi_name(types[field["type"]]), (False,))[0]
        atomic = described.get("elementRelationship", "atomic" if atomic else "") == "atomic"
        return ("MESSAGE_ATOMIC" if atomic else "MESSAGE"), options
    return "FIELD", options


def field_row(type_, field, types, merge, required, docs):
    described = merge.get(openapi_name(type_), (False, {}))[1].get(field["name"], {})
    macro, options = merge_options(field, described, types, merge)
    if field["pointer"]:
        options.append("POINTER")
    if field["name"] in required:
        options.append("REQUIRED")
    if field["go"] != default_go(types, field) and field["base"] != "ANY":
        options.append(f'GO("{field["go"]}")')
    doc = docs.get((type_["name"], field["name"]))
    if doc:
        options.append(f'DOC("{doc}")')
    number = 0 if (type_["name"], field["name"]) in UNNUMBERED else field["number"]
    what = field.get("type") or field["base"]
    return f"    {macro}({', '.join([field['name'], str(number), what, *options])})\n"


def type_rows(type_, types, merge, swagger, docs):
    required = swagger.get(openapi_name(type_), {}).get("required", [])
    head = [type_["name"], PACKAGES[type_["package"]][0]]
    if type_.get("embedded"):
        head.append(f"EMBEDS({type_['embedded']}, {type_['embeddedNumber']})")
    doc = docs.get((type_["name"], ""))
    if doc:
        head.append(f'DOC("{doc}")')
    rows = "".join(field_row(type_, f, types, merge, required, docs) for f in type_["fields"])
    return f"TYPE({', '.join(head)})\n{rows}END\n"


def load_docs(folder):
    """The DOC("...") that stand in the tables now."""
    docs, at = {}, ""
    for path in sorted(folder.glob("schema_*.def")):
        for line in path.read_text().splitlines():
            row = re.match(r"\s*([A-Z_]+)\((\w+)", line)
            doc = re.search(r'DOC\("(.*)"\)', line)
            if row and row[1] == "TYPE":
                at = row[2]
            if row and doc:
                docs[(at, "" if row[1] == "TYPE" else row[2])] = doc[1]
    return docs


def main(facts, swagger, internal, folder):
    folder = Path(folder)
    types = {t["name"]: t for t in json.loads(Path(facts).read_text())}
    swagger = json.loads(Path(swagger).read_text())["definitions"]
    merge, docs = load_merge(internal), load_docs(folder)
    for file, title in TITLES.items():
        text = f"/* schema_{file}.def - {title}. Rows are explained in schema_tables.c; tools/schema-gen makes\n"
        text += " * all but the DOC(...), which are written here by hand. Sorted by name. */\n"
        for type_ in sorted(types.values(), key=lambda t: t["name"]):
            if PACKAGES[type_["package"]][1] == file:
                text += "\n" + type_rows(type_, types, merge, swagger, docs)
        (folder / f"schema_{file}.def").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])

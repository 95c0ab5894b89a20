/* example - renders the template in argv[1] with the JSON values in argv[2]. */
#include "jinja/jinja.h"

int main(int argc, char **argv)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(NULL);
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error;
    const struct jinja_template *page;

    if (argc != 3)
        return 2;
    page = jinja_add(env, "page", str_from(argv[1]), &error);
    if (!page || jinja_render_json(page, str_from(argv[2]), NULL, &out, &error) < 0) {
        jinja_error_text(&error, &out);
        fputs(out.data, stderr);
        return 1;
    }
    puts(out.data);
    return 0;
}

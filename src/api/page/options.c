/* GET /v1/train/options: run-scheduler's options with their help, for the page's form. */
#include "api/page/page.h"
#include "api/rest/rest.h"
#include "objects/train_options.h"

void page_train_options(struct call *call, const char *id)
{
    static const char *const types[] = {
        [TRAIN_TEXT] = "text",     [TRAIN_INT] = "int",   [TRAIN_REAL] = "real", [TRAIN_BOOL] = "bool",
        [TRAIN_AMOUNT] = "amount", [TRAIN_TIME] = "text", [TRAIN_ENV] = "env"};
    struct json *doc = json_new_object(call->arena);
    struct json *list = json_set_array(call->arena, doc, "options");

    (void)id;
    for (const struct train_option *option = train_options; option->name; option++) {
        struct json *row = json_push_object(call->arena, list);

        json_set_string(call->arena, row, "name", option->name);
        json_set_string(call->arena, row, "field", option->field);
        json_set_string(call->arena, row, "type", types[option->type]);
        json_set_string(call->arena, row, "help", option->help);
        json_set_string(call->arena, row, "default", option->fallback);
        json_set_bool(call->arena, row, "guide", option->guide);
        if (option->type == TRAIN_INT)
            json_set_int(call->arena, row, "min", option->min);
    }
    rest_reply(call, 200, doc);
}

/* The templates that come with Berth. They are objects like any other from the first start on: an admin
 * replaces or deletes them, and they stay as the admin left them.
 *
 * Every value is written with tojson: whatever stands in it, it stays one value. Templates of an earlier
 * version that nobody has changed are replaced by those of this one.
 *
 * nodeSelector and resources are taken from the values where given; a tag is optional, since `host` (this
 * machine's own root) has none. */
#include "objects/object_doc.h"
#include "tasks/internal.h"

#define JOB_HEAD                                                                                             \
    "apiVersion: batch/v1\n"                                                                                 \
    "kind: Job\n"                                                                                            \
    "metadata:\n"                                                                                            \
    "  name: {{ global.release | string | tojson }}\n"                                                       \
    "  labels:\n"                                                                                            \
    "    taskDef: {{ global.taskDef | string | tojson }}\n"                                                  \
    "    release: {{ global.release | string | tojson }}\n"                                                  \
    "    application: {{ global.application | string | tojson }}\n"                                          \
    "    creator: {{ global.creator | string | tojson }}\n"                                                  \
    "    mltask: mltask\n"                                                                                   \
    "spec:\n"                                                                                                \
    "  backoffLimit: 0\n"                                                                                    \
    "  template:\n"                                                                                          \
    "    metadata:\n"                                                                                        \
    "      labels:\n"                                                                                        \
    "        taskDef: {{ global.taskDef | string | tojson }}\n"                                              \
    "        release: {{ global.release | string | tojson }}\n"                                              \
    "        application: {{ global.application | string | tojson }}\n"                                      \
    "        mltask: mltask\n"                                                                               \
    "    spec:\n"                                                                                            \
    "      restartPolicy: Never\n"

#define NODE_SELECTOR                                                                                        \
    "{%- if nodeSelector is defined and nodeSelector %}\n"                                                   \
    "      nodeSelector:\n"                                                                                  \
    "{%- for key, value in nodeSelector.items() %}\n"                                                        \
    "        {{ key | string | tojson }}: {{ value | string | tojson }}\n"                                   \
    "{%- endfor %}\n"                                                                                        \
    "{%- endif %}\n"

#define IMAGE "{{ (image.repository ~ (':' ~ image.tag if image.tag else '')) | tojson }}\n"

#define CONFIG_AND_CLAIM                                                                                     \
    "{% if configs is defined %}\n"                                                                          \
    "apiVersion: v1\n"                                                                                       \
    "kind: ConfigMap\n"                                                                                      \
    "metadata:\n"                                                                                            \
    "  name: {{ global.release | string | tojson }}\n"                                                       \
    "  labels:\n"                                                                                            \
    "    mltask: mltask\n"                                                                                   \
    "data:\n"                                                                                                \
    "  globalCfg: '{{ configs.get(\"global\") }}'\n"                                                         \
    "  datasetCfg: '{{ configs.get(\"dataset\") }}'\n"                                                       \
    "  processCfg: '{{ configs.get(\"process\") }}'\n"                                                       \
    "---\n"                                                                                                  \
    "{% endif %}\n"                                                                                          \
    "apiVersion: v1\n"                                                                                       \
    "kind: PersistentVolumeClaim\n"                                                                          \
    "metadata:\n"                                                                                            \
    "  name: {{ global.release | string | tojson }}\n"                                                       \
    "spec:\n"                                                                                                \
    "{%- if resources is defined and resources and resources.get('storageClassName') %}\n"                   \
    "  storageClassName: {{ resources.get('storageClassName') | string | tojson }}\n"                        \
    "{%- endif %}\n"                                                                                         \
    "  accessModes:\n"                                                                                       \
    "    - ReadWriteMany\n"                                                                                  \
    "  resources:\n"                                                                                         \
    "    requests:\n"                                                                                        \
    "{%- if resources is defined and resources %}\n"                                                         \
    "      storage: {{ (resources.get('storage') or '10Gi') | string | tojson }}\n"                          \
    "{%- else %}\n"                                                                                          \
    "      storage: \"10Gi\"\n"                                                                              \
    "{%- endif %}\n"                                                                                         \
    "---\n"

#define CONTAINER                                                                                            \
    "      containers:\n"                                                                                    \
    "        - name: {{ global.release | string | tojson }}\n"                                               \
    "          tty: true\n"                                                                                  \
    "          image: " IMAGE                                                                                \
    "          imagePullPolicy: {{ (image.pullPolicy or 'Always') | string | tojson }}\n"                    \
    "{%- if image.command is defined and image.command %}\n"                                                 \
    "          command: {{ image.command | tojson }}\n"                                                      \
    "{%- endif %}\n"                                                                                         \
    "          env:\n"                                                                                       \
    "            - name: STORAGE\n"                                                                          \
    "              value: {{ ('/mount/' ~ global.release ~ '/') | tojson }}\n"                               \
    "{%- if configs is defined %}\n"                                                                         \
    "            - name: GLOBALCFG\n"                                                                        \
    "              valueFrom:\n"                                                                             \
    "                configMapKeyRef:\n"                                                                     \
    "                  name: {{ global.release | string | tojson }}\n"                                       \
    "                  key: globalCfg\n"                                                                     \
    "            - name: PROCESSCFG\n"                                                                       \
    "              valueFrom:\n"                                                                             \
    "                configMapKeyRef:\n"                                                                     \
    "                  name: {{ global.release | string | tojson }}\n"                                       \
    "                  key: processCfg\n"                                                                    \
    "            - name: DATASETCFG\n"                                                                       \
    "              valueFrom:\n"                                                                             \
    "                configMapKeyRef:\n"                                                                     \
    "                  name: {{ global.release | string | tojson }}\n"                                       \
    "                  key: datasetCfg\n"                                                                    \
    "{%- endif %}\n"                                                                                         \
    "          volumeMounts:\n"                                                                              \
    "            - name: storage\n"                                                                          \
    "              mountPath: {{ ('/mount/' ~ global.release ~ '/') | tojson }}\n"

#define VOLUMES                                                                                              \
    "      volumes:\n"                                                                                       \
    "        - name: storage\n"                                                                              \
    "          persistentVolumeClaim:\n"                                                                     \
    "            claimName: {{ global.release | string | tojson }}\n"

static const struct shipped {
    const char *name, *description, *required, *text;
} shipped[] = {
    {"countdown-task", "Counts down from a number: to try things out.",
     "{\"process\":{\"train\":{\"number\":\"Number to count down from\"}},\"image\":{\"repository\":\"Image "
     "with "
     "bash\",\"tag\":\"Optional\"}}",
     JOB_HEAD "      containers:\n"
              "        - name: counter\n"
              "          tty: true\n"
              "          image: " IMAGE "          command:\n"
              "            - bash\n"
              "            - -c\n"
              "            - \"for i in $(seq {{ process.train.number | int }} -1 1); do echo $i; "
              "done\"\n" NODE_SELECTOR},
    {"non-distributed-task", "One container on CPUs, with its configuration and a claim for its results.",
     "{\"process\":{},\"image\":{\"repository\":\"Image\",\"tag\":\"Optional\",\"pullPolicy\":\"Optional\"},"
     "\"resources\":{\"cpu\":\"Optional, 500m\",\"memory\":\"Optional, 512Mi\",\"storage\":\"Optional, "
     "10Gi\"}}",
     CONFIG_AND_CLAIM JOB_HEAD CONTAINER
     "{%- if resources is defined and resources %}\n"
     "          resources:\n"
     "            limits:\n"
     "              cpu: {{ (resources.get('cpu') or '500m') | string | tojson }}\n"
     "              memory: {{ (resources.get('memory') or '512Mi') | string | tojson }}\n"
     "{%- endif %}\n" NODE_SELECTOR VOLUMES},
    {"single-gpu-task", "One container on one GPU, with its configuration and a claim for its results.",
     "{\"process\":{},\"image\":{\"repository\":\"Image\",\"tag\":\"Optional\",\"pullPolicy\":\"Optional\"},"
     "\"resources\":{\"storage\":\"Optional, 10Gi\"}}",
     CONFIG_AND_CLAIM JOB_HEAD CONTAINER "          resources:\n"
                                         "            limits:\n"
                                         "              nvidia.com/gpu: 1\n" NODE_SELECTOR VOLUMES},
};

#define EDITION "2" /* of the texts above; "shipped" was the first */

/* As Berth has made it: what people write has managers of its fields, also where it is the first of its name.
 */
static bool is_untouched(const struct object *template)
{
    const struct json *meta = json_get(object_doc(template), "metadata");

    return json_int(json_get(meta, "generation"), 1) == 1 && !json_get(meta, "managedFields") &&
           !template->maker.s;
}

static bool edit_text(void *arg, struct arena *arena, struct json *doc)
{
    json_set_string(arena, json_need_object(arena, doc, "spec"), "template",
                    ((const struct shipped *)arg)->text);
    return true;
}

static int ship_again(struct tasks *tasks, const struct shipped *template, const struct object *object,
                      struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth", .keep_generation = true};
    struct shipped copy = *template;
    struct written written;

    if (!is_untouched(object))
        return 0;
    if (registry_edit_object(tasks->registry, &write, object, edit_text, &copy, &written) < 0)
        return err_set(err, ERR_INTERNAL, "task template '%s': %s", template->name, failure.message);
    return 0;
}

static int ship(struct tasks *tasks, const struct shipped *template, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct json *doc = json_new_object(&arena), *spec, *required;
    const struct object *object = store_get(tasks->store, KIND_TASK_TEMPLATE, "", template->name);
    struct str before = store_value(tasks->store, SHIPPED_TABLE, template->name);
    bool new = !before.s;
    struct written written;

    if (!new &&str_is(before, EDITION))
        return 0;
    store_value_set(tasks->store, SHIPPED_TABLE, template->name, STR(EDITION));
    if (object)
        return new ? 0 : ship_again(tasks, template, object, err);
    if (!new)
        return 0; /* an admin has deleted it */
    if (json_parse(str_from(template->required), &arena, &required, NULL, err) < 0)
        return -1;
    json_set_string(&arena, json_set_object(&arena, doc, "metadata"), "name", template->name);
    spec = json_set_object(&arena, doc, "spec");
    json_set_string(&arena, spec, "description", template->description);
    json_set(&arena, spec, "requiredValues", *required);
    json_set_string(&arena, spec, "template", template->text);
    if (registry_create(tasks->registry, &write, kind_by_id(KIND_TASK_TEMPLATE), "", doc, &written) < 0)
        return err_set(err, ERR_INTERNAL, "task template '%s': %s", template->name, failure.message);
    return 0;
}

int tasks_ship(struct tasks *tasks, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++)
        if (ship(tasks, &shipped[i], err) < 0)
            return -1;
    return 0;
}

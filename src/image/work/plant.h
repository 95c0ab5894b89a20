/* plant - puts checked entries of a tar into a folder. The other half of unpack; not for others. */
#pragma once

#include "image/work/unpack.h"

struct plant;

struct plant *plant_new(int root, const struct unpack_options *options); /* borrows both */
void plant_free(struct plant *plant);                                    /* NULL is fine */
DEFINE_CLEANUP(struct plant *, plant_free);

int plant_count(struct plant *plant, struct fail *fail); /* one entry more: limits, disk space */
void plant_progress(struct plant *plant, int64_t consumed);

/* A new file, open for writing; its data; then its owner, mode, attributes and times. */
int plant_file(struct plant *plant, const struct unpack_entry *entry, struct fail *fail);
int plant_data(struct plant *plant, int fd, const void *block, size_t len, int64_t offset, struct fail *fail);
int plant_file_end(struct plant *plant, int fd, struct archive_entry *from, struct fail *fail);
int plant_other(struct plant *plant, const struct unpack_entry *entry, struct archive_entry *from,
                struct fail *fail); /* everything but files */
/* Times of folders, which their entries have changed; folders that were not described; what it came to. */
void plant_end(struct plant *plant, struct unpack_counts *ret);

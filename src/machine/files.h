/* files - what `berth data` says to berth-files, a process with the rights of the caller, through the daemon.
 *
 * A request is a line of JSON, an answer is one, too; bytes of files follow such a line, as many as it says.
 * Paths: absolute, or below the caller's home. An answer with "error" is a sentence ("missing": since nothing
 * is there); the next request may follow. A put is refused as soon as it fails, also before its bytes have
 * all come; they are still taken then.
 *
 *   {"op":"stat","path":P}              {"type":"file|dir|other|none","size":N,"mode":M,"mtime":T}
 *   {"op":"sum","path":P,"first":K}     {"size":N,"sum":HEX}   of all, or of the first K bytes
 *   {"op":"list","path":P,"deep":B}     {"path":…,"type":…,"size":…,"mode":…,"mtime":…} …,
 *                                       {"end":true,"unnamed":N,"unread":N}; deep follows no link to a
 *                                       folder (type "link"). Left out are names that are no UTF-8 and
 *                                       folders that may not be read
 *   {"op":"mkdir","path":P}             {"ok":true}
 *   {"op":"part","path":P}              {"have":N,"sum":HEX}   of what an interrupted put has left
 *   {"op":"put","path":P,"from":K,"size":N,"mode":M,"mtime":T}, N-K bytes, {"sum":HEX}
 *                                       {"ok":true}; "sum" is of the whole file, which appears only then
 *   {"op":"get","path":P,"from":K}      {"from":K,"size":N,"mode":M,"mtime":T}, N-K bytes, {"sum":HEX}
 *
 * What is being put lies beside its place as .NAME.berth-part. */
#pragma once

#include <stdint.h>

#define FILES_LINE_MAX  (64 << 10)
#define FILES_DEPTH_MAX 64
#define FILES_SIZE_MAX  (INT64_C(1) << 50) /* of one file */
#define FILES_PART      ".%s.berth-part"

int files_serve(int in, int out); /* until the end of `in`; an exit status */

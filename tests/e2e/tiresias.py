"""Least attained service as Tiresias' simulator plays it (discretised, in GPU time, GPUs only counted, preemption
free), written down from its published rules for comparison with `berth simulate --policy las`.

The queues are lists. At every event (jobs came or ended, or somebody has had enough for the next queue):
new jobs go to the end of the first queue; a running job that has had a queue's share goes to the end of the next
one; then all queues are tried in order, and whatever fits runs; then, within each queue, those that run are put
before those that wait, each in the order they had. Times are whole seconds. When somebody will have had enough is
computed from seconds, not from GPU-seconds, so that gangs are moved up to an event late (late_moves)."""

import math

LIMITS = (3250, 7200)  # GPU-seconds


def simulate(jobs, gpus, late_moves=True):
    """jobs: (submit, gpus, duration), by submission. Their completion times."""
    queues = [[] for _ in range(len(LIMITS) + 1)]
    had, level, running, seen, end = ([0] * len(jobs) for _ in range(5))
    active, arrived, move, ends = [], 0, math.inf, {}
    while arrived < len(jobs) or active:
        arrival = jobs[arrived][0] if arrived < len(jobs) else math.inf
        now = min(arrival, min(ends.values(), default=math.inf))
        if move < now:
            now = move
        else:
            for j in [j for j, at in ends.items() if at == now]:
                end[j] = now
                active.remove(j)
                queues[level[j]].remove(j)
            while arrived < len(jobs) and jobs[arrived][0] == now:
                active.append(arrived)
                queues[0].append(arrived)
                arrived += 1
        for j in active:
            if running[j]:
                had[j] += now - seen[j]
                if level[j] < len(LIMITS) and had[j] * jobs[j][1] >= LIMITS[level[j]]:
                    queues[level[j]].remove(j)
                    level[j] += 1
                    queues[level[j]].append(j)
            seen[j] = now
        free, goes = gpus, set()
        for queue in queues:
            for j in queue:
                if jobs[j][1] <= free:
                    free -= jobs[j][1]
                    goes.add(j)
        for j in active:
            running[j] = j in goes
        queues = [[j for j in q if running[j]] + [j for j in q if not running[j]] for q in queues]
        ends = {j: now + jobs[j][2] - had[j] for j in active if running[j]}
        move = min((now + left(jobs[j], had[j], LIMITS[level[j]], late_moves) for j in ends if level[j] < len(LIMITS)),
                   default=math.inf)
    return [end[j] - jobs[j][0] for j in range(len(jobs))]


def left(job, had, limit, late):
    return math.ceil((limit - had) / job[1]) if late else math.ceil(limit / job[1]) - had

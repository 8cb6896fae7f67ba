"""Simulates one compute unit: waves issue in order, units and queues are shared, waits wait.

Each SIMD issues one instruction a turn to each of its units; the compute unit has an LDS, an
address unit with its cache, a port to the L2 and its share of what the device's L2, L3 and memory
deliver. Time is in cycles. The time before each issue is charged to the instruction that waits,
with the reason of the last limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from ..model.machine import Rates
from .costs import (
    BARRIER,
    BRANCH,
    END,
    IDLE,
    LDS,
    LOAD,
    MATRIX,
    REASONS,
    SCALAR,
    SCALAR_LOAD,
    STORE,
    UNITS,
    VECTOR,
    WAIT,
    Cost,
    Costs,
    CuTime,
    Group,
    Shares,
    Sharing,
    Wave,
)
from .wave_traces import Access, WaveTrace

(_ISSUE, _DEPENDENCY, _VECTOR, _MATRIX, _LDS, _MEMORY, _BARRIER, _SCALAR, _ICACHE) = range(9)
(_B_VECTOR, _B_MATRIX, _B_LDS, _B_L1, _B_L2, _B_L3, _B_MEMORY) = range(7)
"""Places of `REASONS`, and of `UNITS`."""
_NO_ACCESS: Final = Access()
_PORTS: Final = (VECTOR, LOAD, SCALAR)
"""Kinds that have an issue port of their own on each SIMD; matrix instructions use the vector's."""
_Issue = Callable[[Wave, Cost, int, float], float]


class ComputeUnit:
    """One compute unit; `run` may be called once."""

    def __init__(self, costs: Costs, rates: Rates, shares: Shares, sharing: Sharing) -> None:
        self._costs = costs
        self._rates = rates
        self._shares = shares
        self._sharing = sharing
        simds = shares.simds
        self._free = {kind: [0.0] * simds for kind in _PORTS}
        self._matrix_free = [0.0] * simds
        self._load = [0] * simds
        self._half = [simd * shares.halves // simds for simd in range(simds)]
        self._lds_free = [0.0] * shares.halves
        pairs = (simds + 1) // 2
        self._port_free = [0.0] * pairs
        self._lds_port_free = [0.0] * pairs
        self._lds_waiting: list[deque[float]] = [deque() for _ in range(pairs)]
        self._memory_waiting: list[deque[float]] = [deque() for _ in range(simds)]
        self._address_free = [0.0] * shares.halves
        self._l2_free = self._l3_free = self._memory_free = 0.0
        sets = max(1, rates.l1_bytes // shares.line // rates.l1_ways)
        self._caches: list[list[dict[int, float]]] = [
            [{} for _ in range(sets)] for _ in range(shares.halves)
        ]
        self._in_flight: deque[tuple[float, int]] = deque()
        self._flying = 0
        self._icache: dict[int, float] = {}
        self._missed: dict[int, float] = {}
        self._loaded: dict[int, float] = {}
        self._busy = [0.0] * len(UNITS)
        self._stalls: dict[int, list[float]] = {}
        self._blamed: dict[int, list[float]] = {}
        self._issues: dict[int, int] = {}
        self._waiting: list[tuple[float, float, int, Wave]] = []
        self._groups: list[Group] = []
        self._next = 0
        self._beyond = 0.0
        self._fetched: list[set[int]] = []

    def run(self, workgroups: Sequence[Sequence[WaveTrace]], resident: int) -> CuTime:
        """Runs workgroups one after another, `resident` at a time.

        `resident`: workgroups that are on the compute unit together.
        """
        age = 0
        for number, traces in enumerate(workgroups):
            made = []
            for trace in traces:
                made.append(Wave(trace, number, age, self._costs.groups, self._costs.counters))
                age += 1
            self._groups.append(Group(made))
            self._fetched.append(set())
        for slot in range(min(resident, len(self._groups))):
            self._start(slot * self._rates.workgroup_start)
        waiting, sites = self._waiting, self._costs.sites
        stalls, issues, issue_of = self._stalls, self._issues, self._issuers()
        while waiting:
            now, _, _, wave = heappop(waiting)
            while True:
                site = wave.stream[wave.position]
                cost = sites[site]
                at, reason = self._earliest(wave, cost, now)
                if at > now:
                    wave.reason = reason
                    # SIMDs take turns at the LDS; elsewhere the oldest wave is first.
                    since = wave.base if cost.kind == LDS else at
                    heappush(waiting, (at, since, wave.age, wave))
                    break
                gap = now - wave.base
                if gap > 0:
                    row = stalls.get(site)
                    if row is None:
                        row = stalls[site] = [0.0] * len(REASONS)
                    row[wave.reason] += gap
                    if cost.kind == WAIT and wave.blame >= 0:
                        row = self._blamed.get(wave.blame)
                        if row is None:
                            row = self._blamed[wave.blame] = [0.0] * len(REASONS)
                        row[wave.reason] += gap
                        wave.blame = -1
                issues[site] = issues.get(site, 0) + 1
                wave.reason = _ISSUE
                step = issue_of[cost.kind](wave, cost, site, now)
                wave.position += 1
                wave.base = now = now + step
                if cost.kind == BARRIER:
                    self._arrive(wave, now, site)
                    break
                if cost.kind == END or wave.position >= len(wave.stream):
                    self._end(wave, now)
                    break
                if waiting and waiting[0][0] <= now:
                    heappush(waiting, (now, now, wave.age, wave))
                    break
        for site, row in stalls.items():
            if sites[site].kind == WAIT:
                continue
            of_it = self._blamed.setdefault(site, [0.0] * len(REASONS))
            for reason, cycles in enumerate(row):
                of_it[reason] += cycles
        ends = [group.end for group in self._groups]
        return CuTime(ends, stalls, self._blamed, issues, self._busy)

    def _issuers(self) -> dict[int, _Issue]:
        return {
            SCALAR: self._issue_scalar, VECTOR: self._issue_vector, MATRIX: self._issue_matrix,
            LDS: self._issue_lds, LOAD: self._issue_load, STORE: self._issue_store,
            SCALAR_LOAD: self._issue_scalar_load, BRANCH: self._issue_branch,
            WAIT: self._issue_wait, BARRIER: self._issue_nothing, IDLE: self._issue_idle,
            END: self._issue_nothing,
        }  # fmt: skip

    # ----------------------------------------------------------------------- workgroups

    def _start(self, when: float) -> None:
        """Makes the next workgroup resident: its waves go to the SIMDs that hold fewest."""
        group = self._groups[self._next]
        self._next += 1
        for wave in group.waves:
            wave.simd = min(range(self._shares.simds), key=self._load.__getitem__)
            self._load[wave.simd] += 1
            wave.base = when
            heappush(self._waiting, (when, when, wave.age, wave))

    def _arrive(self, wave: Wave, now: float, site: int) -> None:
        group = self._groups[wave.group]
        group.arrived.append((wave, now, site))
        group.opens = max(group.opens, now)
        if len(group.arrived) >= group.left:
            self._open(group)

    def _open(self, group: Group) -> None:
        """Lets the waves at a barrier go on."""
        for wave, came, site in group.arrived:
            row = self._stalls.setdefault(site, [0.0] * len(REASONS))
            row[_BARRIER] += group.opens - came
            wave.base = group.opens
            if wave.position >= len(wave.stream):
                self._end(wave, group.opens)
            else:
                heappush(self._waiting, (group.opens, group.opens, wave.age, wave))
        group.arrived = []
        group.opens = 0.0

    def _end(self, wave: Wave, now: float) -> None:
        group = self._groups[wave.group]
        group.left -= 1
        self._load[wave.simd] -= 1
        # Stores go on when the wave has ended, and the kernel waits for them.
        group.end = max(group.end, now, *(q[-1][0] for q in wave.queues if q))
        if group.left and len(group.arrived) >= group.left:
            self._open(group)
        if not group.left and self._next < len(self._groups):
            self._start(now + self._rates.workgroup_start)

    # ----------------------------------------------------------------------- when it can issue

    def _earliest(self, wave: Wave, cost: Cost, now: float) -> tuple[float, int]:
        """When an instruction can issue, and what it waits for."""
        at, reason = now, wave.reason
        kind, rates = cost.kind, self._rates
        if cost.line != wave.line:
            at, reason = self._fetch(wave, cost.line, at, reason)
        ready = wave.ready
        for group in cost.reads:
            when, why = ready[group]
            if when > at:
                if why == _MATRIX and kind == MATRIX and group in cost.writes:
                    when -= rates.matrix_result  # the sum is forwarded
                    if when <= at:
                        continue
                at, reason = when, why
        simd = wave.simd
        if kind in (SCALAR, BRANCH):
            free = self._free[SCALAR][simd]
            if free > at:
                at, reason = free, _ISSUE
            if wave.last_vector + rates.valu_to_scalar > at and self._reads_vector(wave, cost):
                at, reason = wave.last_vector + rates.valu_to_scalar, _DEPENDENCY
            return at, reason
        if kind == WAIT:
            for counter, most in cost.waits:
                queue = wave.queues[counter]
                if len(queue) > most:
                    when, why, blame = queue[len(queue) - most - 1] if most else max(queue)
                    if when > at:
                        at, reason = when, why
                        wave.blame = blame
            return at, reason
        if kind in (VECTOR, MATRIX):
            for group in cost.writes:  # a result may not be overwritten by one that comes first
                when, why = ready[group]
                if why == _MATRIX and kind == VECTOR and when > at:
                    at, reason = when, why
            free = self._free[VECTOR][simd]
            if free > at:
                at, reason = free, _VECTOR
            if kind == MATRIX and self._matrix_free[simd] > at:
                at, reason = self._matrix_free[simd], _MATRIX
            return at, reason
        if kind in (LDS, LOAD, STORE):
            when = wave.last_vector + rates.valu_to_memory
            if when > at:
                at, reason = when, _DEPENDENCY
            at, reason = self._queued(wave, cost, at, reason)
        for counter, _ in cost.raises:
            queue = wave.queues[counter]
            if len(queue) >= self._shares.counter_limits[counter]:
                if queue[0][0] > at:
                    at, reason, _ = queue[0]
                else:
                    del queue[0]
        return at, reason

    def _reads_vector(self, wave: Wave, cost: Cost) -> bool:
        """Whether a scalar instruction reads what the wave's last vector instruction wrote."""
        return any(wave.ready[group][1] == _VECTOR for group in cost.reads)

    def _fetch(self, wave: Wave, line: int, at: float, reason: int) -> tuple[float, int]:
        """When the line of the instruction cache that a wave comes to is there."""
        wave.line = line
        cache = self._icache
        ready = cache.pop(line, None)
        if ready is None:
            ready = at + self._rates.icache_miss
            if len(cache) >= self._shares.icache_lines:
                del cache[next(iter(cache))]
        cache[line] = ready
        return (ready, _ICACHE) if ready > at else (at, reason)

    def _queued(self, wave: Wave, cost: Cost, at: float, reason: int) -> tuple[float, int]:
        """When the queue in front of the LDS or the address unit takes an instruction."""
        simd = wave.simd
        if cost.kind == LDS:
            queue, most, why = self._lds_waiting[simd // 2], self._rates.lds_queue, _LDS
            free = self._lds_port_free[simd // 2]
        else:
            queue, most, why = self._memory_waiting[simd], self._rates.memory_queue, _MEMORY
            free = self._free[LOAD][simd]
        if free > at:
            at, reason = free, _ISSUE
        while queue and queue[0] <= at:
            queue.popleft()
        if len(queue) >= most:
            at, reason = queue[len(queue) - most], why
        most_flying = self._rates.l1_bytes_in_flight
        if cost.kind == LOAD and most_flying is not None:
            flying = self._in_flight
            while flying and flying[0][0] <= at:
                self._flying -= flying.popleft()[1]
            if self._flying > most_flying:
                at, reason = flying[0][0], _MEMORY
        return at, reason

    # ----------------------------------------------------------------------- issue

    def _issue_nothing(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        return self._shares.issue

    def _issue_idle(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        return cost.cycles

    def _issue_scalar(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        self._free[SCALAR][wave.simd] = now + self._shares.issue
        for group in cost.writes:
            wave.ready[group] = now + cost.result, _DEPENDENCY
        return self._shares.issue

    def _issue_branch(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        self._free[SCALAR][wave.simd] = now + self._shares.issue
        following = wave.position + 1
        if following < len(wave.stream) and wave.stream[following] != site + 1:
            return self._rates.branch_taken
        return self._rates.branch_not_taken

    def _issue_vector(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        self._free[VECTOR][wave.simd] = now + cost.cycles
        self._busy[_B_VECTOR] += cost.cycles
        wave.last_vector = now
        scalar_from = self._costs.scalar_from
        for group in cost.writes:
            why = _VECTOR if group >= scalar_from else _DEPENDENCY
            wave.ready[group] = now + cost.result, why
        return self._shares.issue

    def _issue_matrix(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        self._matrix_free[wave.simd] = now + cost.cycles
        self._free[VECTOR][wave.simd] = now + self._shares.issue
        self._busy[_B_MATRIX] += cost.cycles
        for group in cost.writes:
            wave.ready[group] = now + cost.result, _MATRIX
        return self._shares.issue

    def _issue_wait(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        for counter, most in cost.waits:
            queue = wave.queues[counter]
            if len(queue) > most:
                del queue[: len(queue) - most]
        return self._shares.issue

    def _issue_scalar_load(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        self._free[SCALAR][wave.simd] = now + self._shares.issue
        missed = now + self._rates.scalar_miss
        there = [self._loaded.setdefault(line, missed) for line in cost.scalar_lines]
        self._outstanding(wave, cost, site, max(now + self._rates.scalar_hit, *there), _SCALAR)
        return self._shares.issue

    def _issue_lds(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        shares, simd = self._shares, wave.simd
        self._lds_port_free[simd // 2] = now + shares.issue
        access = wave.accesses.get(wave.position, _NO_ACCESS)
        half = self._half[simd]
        begin = max(now, self._lds_free[half])
        taken = max(access.cycles, 1)
        self._lds_free[half] = end = begin + taken
        self._busy[_B_LDS] += taken / shares.halves
        pair = simd // 2
        if shares.lds_port:
            # What passes the port is what the LDS gives at its full width.
            moved = access.least * self._lds_width / shares.lds_port
            self._port_free[pair] = max(begin, self._port_free[pair]) + moved
            end = max(end, self._port_free[pair])
        self._lds_waiting[pair].append(end)
        self._outstanding(wave, cost, site, end + self._rates.lds_latency, _LDS)
        return shares.issue

    @property
    def _lds_width(self) -> float:
        return 128.0 if self._shares.lds_port is None else 2 * self._shares.lds_port

    def _issue_load(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        access, begin, end = self._look_up(wave, cost, now)
        end += self._rates.l1_latency
        shares, rates = self._shares, self._rates
        sets = self._caches[self._half[wave.simd]]
        ways, moved = rates.l1_ways, 0
        for line in access.lines:
            lines = sets[(line ^ (line >> 7)) % len(sets)]
            ready = lines.pop(line, None)
            if ready is None:
                moved += shares.line
                ready = self._from_l2(wave, cost, site, line, begin)
                if len(lines) >= ways:
                    del lines[next(iter(lines))]
            lines[line] = ready
            if ready > end:
                end = ready
        end = self._outstanding(wave, cost, site, end, _MEMORY)
        if moved:
            self._in_flight.append((end, moved))
            self._flying += moved
        return shares.issue

    def _issue_store(self, wave: Wave, cost: Cost, site: int, now: float) -> float:
        access, begin, end = self._look_up(wave, cost, now)
        shares, busy = self._shares, self._busy
        stored = self._sharing.stored.get(site, 1.0)
        beyond, taken_by_l3 = self._sharing.beyond_l3.get(site, 1.0), 0.0
        for _ in access.lines:
            self._l2_free = max(self._l2_free, begin) + shares.line / shares.l2
            busy[_B_L2] += shares.line / shares.l2
            if stored and beyond < 1 and shares.l3 is not None:
                taken = shares.line * stored / shares.l3
                self._l3_free = taken_by_l3 = max(self._l3_free, begin) + taken
                busy[_B_L3] += taken
            if stored and beyond:
                taken = shares.line * stored * beyond / shares.memory
                self._memory_free = max(self._memory_free, begin) + taken
                busy[_B_MEMORY] += taken
        if access.lines:
            # The L2 takes stores until its share of the compute unit is full of them.
            written_back = max(taken_by_l3, self._memory_free) - shares.l2_cycles
            end = max(end, self._l2_free + self._rates.store_latency, written_back)
        self._outstanding(wave, cost, site, end, _MEMORY)
        return shares.issue

    def _look_up(self, wave: Wave, cost: Cost, now: float) -> tuple[Access, float, float]:
        """The address unit takes an access: what it is, when its lookup begins and ends."""
        shares, simd = self._shares, wave.simd
        self._free[LOAD][simd] = now + shares.issue
        access = wave.accesses.get(wave.position, _NO_ACCESS)
        half = self._half[simd]
        begin = max(now, self._address_free[half])
        taken = max(
            shares.issue,
            cost.addressed,
            len(access.lines) / shares.l1_lines_per_clk,
            access.bytes / self._rates.l1_data_bytes_per_clk,
        )
        self._address_free[half] = end = begin + taken
        self._busy[_B_L1] += taken / shares.halves
        self._memory_waiting[simd].append(end)
        return access, begin, end

    def _from_l2(self, wave: Wave, cost: Cost, site: int, line: int, begin: float) -> float:
        """When a line that the cache does not have is there."""
        shares, rates, busy = self._shares, self._rates, self._busy
        self._l2_free = max(self._l2_free, begin) + shares.line / shares.l2
        busy[_B_L2] += shares.line / shares.l2
        ready = self._l2_free + rates.l2_latency
        fetched = self._fetched[wave.group]
        if line in fetched and not cost.is_scratch:
            return ready
        fetched.add(line)
        missed = self._missed.get(site, 0.5) + self._sharing.fresh.get(site, 1.0)
        self._missed[site] = missed % 1
        if missed < 1:
            return ready
        self._beyond += self._sharing.beyond_l3.get(site, 1.0)
        if shares.l3 is not None:
            self._l3_free = max(self._l3_free, begin) + shares.line / shares.l3
            busy[_B_L3] += shares.line / shares.l3
            ready = max(ready, self._l3_free + rates.l3_latency)
        if self._beyond >= 1:
            self._beyond -= 1
            self._memory_free = max(self._memory_free, begin) + shares.line / shares.memory
            busy[_B_MEMORY] += shares.line / shares.memory
            ready = max(ready, self._memory_free + rates.memory_latency)
        return ready

    def _outstanding(self, wave: Wave, cost: Cost, site: int, end: float, why: int) -> float:
        """Adds an operation to its counters; returns when it completes."""
        for counter, in_order in cost.raises:
            if in_order:
                end = wave.lasts[counter] = max(end, wave.lasts[counter])
            wave.queues[counter].append((end, why, site))
        for group in cost.writes:
            wave.ready[group] = 0.0, _DEPENDENCY
        return end

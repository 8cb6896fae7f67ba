-- A history file of schema version 1, as sqlite3's .dump writes what that kinspect made.
BEGIN TRANSACTION;
CREATE TABLE result (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    identity TEXT NOT NULL,
    runs INTEGER NOT NULL,
    best_us REAL NOT NULL,
    mean_us REAL NOT NULL,
    slowest_us REAL NOT NULL,
    error_us REAL,
    tflops REAL,
    gib_per_s REAL,
    config TEXT NOT NULL,
    others TEXT NOT NULL,
    clocks TEXT NOT NULL
);
INSERT INTO "result" VALUES(1,'small','{"K": 128, "M": 64, "N": 64}',3,10.0,11.0,12.0,5.77350269189625731058e-01,1.81818181818181823228e-01,NULL,'{"BLOCK_M": 64}','{"torch": 5.5}','{"core_mhz": 1980}');
INSERT INTO "result" VALUES(1,'large','{"K": 128, "M": 4096, "N": 64}',2,22.0,22.5,23.0,0.5,8.88888888888888922812e-02,NULL,'{"BLOCK_M": 64}','{"torch": 5.5}','{"core_mhz": 1980}');
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    date TEXT NOT NULL,
    kernel TEXT NOT NULL,
    path TEXT NOT NULL,
    device TEXT NOT NULL,
    arch TEXT,
    mode TEXT NOT NULL,
    gpu TEXT NOT NULL,
    versions TEXT NOT NULL
);
INSERT INTO "run" VALUES(1,'2026-01-02T03:04:05+00:00','gemm','gemm.py','NVIDIA H200','sm_90','time','{"compute_units": 132, "memory_bytes": 137438953472}','{"driver": null, "torch": "2.11", "triton": "3.6.0"}');
CREATE INDEX result_of_run ON result (run);
CREATE INDEX result_by_identity ON result (identity);
CREATE INDEX run_by_kernel ON run (kernel, device);
COMMIT;
PRAGMA user_version = 1;

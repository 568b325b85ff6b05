/* The life of jobs between the database, two workers and maintenance. See README.md: each step has the name of the SQL
   function or method that it models, each guard the name of a condition in that function.

   A step is a transaction. jobs_finish, and claim_hold before a checkpoint, keep the lock of their tickets until COMMIT,
   which is a step of its own. The first lines of README.md list the settings of a run. */

#define JOBS 3
#define WORKERS 3    /* two at the beginning, a third when both have ended */
#define SESSIONS 6   /* of each worker's child: the present one, and one whose client has left it */
#define NOBODY 255
#ifndef CRASHES
#define CRASHES 2
#endif
#define CRASHES_TO_FAIL 2   /* 3 in the product: here two crashes reach the dead letter */
#define MAX_ATTEMPTS 2

/* Events that a run may contain */
#ifndef DEATHS
#define DEATHS 0      /* a child is killed, a worker is killed, a worker is stopped and continues */
#endif
#ifndef BREAKS
#define BREAKS 0      /* a connection breaks: the reply to a commit or to a claim is lost */
#endif
#ifndef ERRORS
#define ERRORS 0      /* a handler raises */
#endif
#ifndef COMMANDS
#define COMMANDS 0    /* users cancel jobs and retry job 0 as job 1 */
#endif
#ifndef CUTOVER
#define CUTOVER 0     /* the backend changes between pool and rabbitmq, and a worker leaves for good */
#endif
#ifndef SERVER
#define SERVER 0      /* 1: the server restarts, or its synchronous standby takes over.  2: a standby with lost commits */
#endif
#ifndef REQUESTS
#define REQUESTS 0    /* these jobs, as bits, are submitted during the run; a request may be repeated */
#endif

/* A long job may commit the first piece of its work by job_checkpoint; short jobs share a transaction. */
#if COMMANDS
#define LONGS 3   /* jobs 0 and 1 */
#define PRESENT 5 /* at the beginning; job 1 continues job 0 */
#else
#define LONGS 4   /* job 2 */
#ifndef PRESENT
#define PRESENT 7
#endif
#endif

/* Guards: -DWITHOUT=NAME removes one; README.md names the condition in the product */
#define TOKEN_OF_UNCLAIM 1
#define TOKEN_OF_FINISH 2
#define WHOLE_BATCH 3
#define TOKEN_OF_HOLD 4
#define SESSION_OF_HOLD 5
#define SESSION_OF_FINISH 6
#define TOKEN_OF_RESCUE 7
#define RESCUE_TASK 8
#define SILENT_WORKER 9
#define HELD_CLAIMS 10
#define READY_TICKET 11
#define WORKER_HOLD 12
#define FRESH_TOKEN 13
#define LOCK_OF_HELD 14
#define CLAIMED_AT_CANCEL 15
#define ENDED_TO_RETRY 16
#define ONE_SUCCESSOR 17
#define KEPT_CHECKPOINT 18
#define DURABLE_COMMIT 19
#define DURABLE_REPLAY 20
#define SERVER_REPLACED 21
#define REPUBLISHED 22
#define MOVED_UNSERVED 23
#ifndef WITHOUT
#define WITHOUT 0
#endif
#define guard(name, condition) (WITHOUT == name || (condition))

mtype = { absent, pending, running, completed, failed, cancelled }       /* background_jobs.status */
mtype = { gone, ready }                                                  /* tickets.state, beside running */
mtype = { unborn, runs, silent, dead }                                   /* a worker */
mtype = { idle, works, waits, unsure, ended }                            /* its child */
mtype = { closed, open, holds }                                          /* a session: a message is under way, has locks */
mtype = { nothing, to_finish, to_checkpoint }                                /* the message under way to it */

typedef Database {
    mtype status[JOBS];
    bit cancel_requested[JOBS];
    byte errors[JOBS];
    byte crashes[JOBS];
    byte shown[JOBS];       /* backend of the open attempt: a session + 1 */
    bit checkpoint[JOBS];
    bit successor;          /* of job 0: job 1 */
    byte work[JOBS];        /* how often the business rows of a job were written: of its piece, of its end */
    byte piece[JOBS];
    mtype ticket[JOBS];
    byte worker_id[JOBS];
    byte token[JOBS];
    bit alone[JOBS];        /* tickets.crashes > 0 */
#if WITHOUT == FRESH_TOKEN
    byte attempt[JOBS];
#endif
#if CUTOVER
    bit rabbitmq[JOBS];     /* tickets.backend; otherwise pool */
    bit published[JOBS];
#endif
    bit listed[WORKERS]     /* turno.workers */
}
typedef Worker {
    mtype state;
    mtype child;
    byte held[JOBS];        /* tokens of its claims */
    byte batch;             /* jobs of the child's transaction */
    bit checkpointed;       /* the child has read or written the checkpoint of the long job */
    bit current;            /* which of its two sessions the child uses */
    bit blameless;          /* the supervisor killed the child */
#if SERVER
    bit astray              /* the child's session is at a server that hangs and was replaced */
#endif
}
typedef Session {
    mtype at;
    mtype sent;
    byte jobs;
    bit piece;              /* the end of a long job includes its first piece */
    byte token[JOBS]
}

Database db;
#if SERVER
Database standby;           /* the commits that survive the loss of the server */
#endif
Worker worker[WORKERS];
Session session[SESSIONS];
byte lock[JOBS];            /* holder of the ticket's row lock: a session + 1 */
byte crashed;
bit claimed_once[2];        /* any job; a short job. Without such a claim workers, and short jobs, are interchangeable */
byte started = 2;           /* workers */
bit answered[JOBS];         /* a client has 202 */
bit reported[JOBS];         /* a child has the reply to the commit of the end */
/* A rescue that maintenance has read from `orphans` and not yet done */
byte orphan = NOBODY;
byte orphan_token;
#if COMMANDS
bit asked_to_cancel[JOBS];
byte retries;
#endif
#if CUTOVER
bit message[JOBS];          /* in the broker */
bit switched;               /* an operator chose pool in place of rabbitmq */
bit has_left;               /* a worker ended in good order, and none replaces it */
#endif

hidden byte value, row, column;        /* inside a d_step only */

#define in(set, j) (((set) >> (j)) & 1)
#define is_open(j) (db.status[j] == pending || db.status[j] == running)
#define session_of(w) (2 * (w) + worker[w].current)
#define other_session(w) (2 * (w) + 1 - worker[w].current)
#define free_or_own(j, s) (lock[j] == 0 || lock[j] == (s) + 1)
#define connected(s) (session[s].at != closed || worker[(s) / 2].state != dead && session_of((s) / 2) == (s) && \
    worker[(s) / 2].child != ended)
#define elsewhere(j, s) (db.shown[j] != 0 && db.shown[j] != (s) + 1 && connected(db.shown[j] - 1))
#define single(set) ((set) == 1 -> 0 : ((set) == 2 -> 1 : 2))   /* the job of such a set */
#define each(v, most) v : 0 .. (most) - 1

/* The promises of DESIGN.md, section 1, after each step that changes the database */
inline promises() {
    for (each(column, JOBS)) {
        /* 1 */ assert((db.ticket[column] != gone) == is_open(column));
        /* 2 */ assert(db.work[column] == (db.status[column] == completed));
        assert(db.piece[column] <= 1);
        assert(db.status[column] != completed || !in(LONGS, column) || db.piece[column] || COMMANDS);
#if COMMANDS
        assert(db.piece[0] + db.piece[1] <= 1);
        assert(db.work[0] + db.work[1] <= 1);
#endif
        /* Every counted crash was one */ assert(db.crashes[column] <= crashed);
#if SERVER < 2
        /* 1 */ assert(!answered[column] || db.status[column] != absent);
        /* 2 */ assert(!reported[column] || db.status[column] == completed);
#endif
    }
    column = 0
}

/* 3: only the holder writes under a claim */
#define holder_writes(w, j) assert(db.ticket[j] == running && db.worker_id[j] == (w))
/* 4: a claim ends by its holder, or after the holder was declared dead */
#define claim_ends(j, w) \
    assert(db.ticket[j] != running || db.worker_id[j] == (w) || !db.listed[db.worker_id[j]])

#if SERVER == 0
#define commit_async skip
#define commit_durably skip
#elif SERVER == 1
#define flush d_step { c_code { now.standby = now.db; }; forget_tokens }
#define commit_async if :: flush :: skip fi
#define commit_durably flush
#else
#define flush d_step { c_code { now.standby = now.db; }; forget_tokens }
#define commit_async if :: flush :: skip fi
#define commit_durably if :: flush :: skip fi
#endif

/* Tokens are compared with those of tickets only: all others are one value, STALE, so that fewer states differ. */
#define STALE 7
#if SERVER
#define of_a_ticket(value, j) (value == now.db.token[j] || value == now.standby.token[j])
#else
#define of_a_ticket(value, j) (value == now.db.token[j])
#endif
#define forget_value(value, j) if (value && !of_a_ticket(value, j)) value = STALE
#if WITHOUT == FRESH_TOKEN
#define forget_tokens skip
#else
#define forget_tokens c_code { \
    int of, j; \
    for (j = 0; j < JOBS; j++) { \
        for (of = 0; of < WORKERS; of++) forget_value(now.worker[of].held[j], j); \
        for (of = 0; of < SESSIONS; of++) forget_value(now.session[of].token[j], j); \
        if (now.orphan == j) forget_value(now.orphan_token, j); \
    } }
#endif
inline fresh_token(j) {
#if WITHOUT == FRESH_TOKEN
    db.attempt[j]++;
    value = db.attempt[j];
#elif SERVER
    value = (db.token[j] != 1 && standby.token[j] != 1 -> 1 : (db.token[j] != 2 && standby.token[j] != 2 -> 2 : 3));
#else
    value = (db.token[j] != 1 -> 1 : 2);
#endif
}

inline close(s) {
    session[s].at = closed;
    session[s].sent = nothing;
    session[s].jobs = 0;
    session[s].piece = 0;
    for (each(column, JOBS)) {
        session[s].token[column] = 0;
        if :: lock[column] == (s) + 1 -> lock[column] = 0 :: else fi
    }
    column = 0   /* a d_step may not end with a loop */
}

inline forget(w) {
    worker[w].batch = 0;
    worker[w].checkpointed = 0;
    worker[w].child = idle;
    worker[w].blameless = 0;
#if SERVER
    worker[w].astray = 0;
#endif
}

inline requeue(j) {
    db.status[j] = pending;
    db.ticket[j] = ready;
    db.worker_id[j] = 0;
    db.token[j] = 0;
    db.shown[j] = 0;
#if CUTOVER
    db.published[j] = 0;
#endif
    forget_tokens
}

inline job_end(j, status_of_end) {
    requeue(j);
    db.status[j] = status_of_end;
    db.ticket[j] = gone;
    db.cancel_requested[j] = 0;
    db.alone[j] = 0;
    db.errors[j] = 0;
    db.crashes[j] = 0;
#if CUTOVER
    db.rabbitmq[j] = 0;
#endif
}

/* ---- Rescue ---- */

/* The backends of the claim's worker end first; another session's lock is waited for */
#define rescuable(j, w) (lock[j] == 0 || (lock[j] - 1) / 2 == (w))
/* counted: 0 no, 1 yes, 2 unknown */
inline job_rescue(j, given, counted, by) {
    if
    :: db.ticket[j] == running && guard(TOKEN_OF_RESCUE, db.token[j] == given) ->
        claim_ends(j, by);
        row = 2 * db.worker_id[j];
        close(row);
        close(row + 1);
        row = (counted == 2 -> db.status[j] == running || db.alone[j] : counted);
        if
        :: db.cancel_requested[j] -> job_end(j, cancelled)
        :: !db.cancel_requested[j] && row && db.crashes[j] + 1 >= CRASHES_TO_FAIL ->
            db.crashes[j]++;
            assert(db.crashes[j] <= crashed);
            job_end(j, failed)
        :: else ->
            db.crashes[j] = db.crashes[j] + row;
            if :: row || counted == 2 -> db.alone[j] = 1 :: else fi;
            requeue(j)
        fi;
        promises()
    :: else
    fi
}

/* ---- Claims ---- */

inline take(w, j) {
    claim_ends(j, w);
    fresh_token(j);
    claimed_once[0] = 1;
    claimed_once[1] = claimed_once[1] || !in(LONGS, j);
    db.ticket[j] = running;
    db.worker_id[j] = w;
    db.token[j] = value;
    forget_tokens
}

#define has_claims(w) (worker[w].held[0] + worker[w].held[1] + worker[w].held[2] > 0)
#define may_claim(w) (worker[w].state == runs && guard(WORKER_HOLD, db.listed[w]) && worker[w].child == idle && \
    !has_claims(w))
#if CUTOVER
#define polled(w, j) (!db.rabbitmq[j] && !consumes(w))
#define consumes(w) ((w) == 1)
#else
#define polled(w, j) 1
#endif
#define claimable(w, j) (db.ticket[j] != gone && guard(READY_TICKET, db.ticket[j] == ready) && lock[j] == 0 && polled(w, j) && \
    ((w) != 1 || claimed_once[0] || CUTOVER) && ((j) != 1 || claimed_once[1] || !in(PRESENT, 0) || COMMANDS || REQUESTS))

/* One ticket, or a batch of the short type. The reply may be lost with its connection. */
inline claim(j) {
    atomic { d_step { may_claim(w) && claimable(w, j) -> take(w, j); worker[w].held[j] = db.token[j] }; commit_async }
}
inline claim_batch(a, b) {
    atomic {
        d_step {
            may_claim(w) && claimable(w, a) && claimable(w, b) && !db.alone[a] && !db.alone[b] ->
            take(w, a);
            worker[w].held[a] = db.token[a];
            take(w, b);
            worker[w].held[b] = db.token[b]
        }
        commit_async
    }
}
inline claim_without_reply(j) {
    atomic {
        d_step { BREAKS && crashed < CRASHES && may_claim(w) && claimable(w, j) -> take(w, j); crashed++ };
        commit_async
    }
}

#if CUTOVER
/* Acknowledged at once; the ticket decides, whatever its backend */
inline claim_job(j) {
    atomic {
        d_step {
            consumes(w) && may_claim(w) && message[j] && lock[j] == 0 ->
            message[j] = 0;
            if
            :: db.ticket[j] != gone && guard(READY_TICKET, db.ticket[j] == ready) ->
                take(w, j);
                worker[w].held[j] = db.token[j]
            :: else
            fi
        }
        commit_async
    }
}
inline worker_stop() {
    d_step {
        !has_left && worker[w].state == runs && db.listed[w] && worker[w].child == idle && !has_claims(w) ->
        has_left = 1;
        db.listed[w] = 0;
        end_worker(w);
        start_worker()
    }
}
#endif

/* No process has begun the job */
inline unclaim(j) {
    atomic {
        d_step {
            worker[w].state == runs && worker[w].held[j] && worker[w].child == idle && lock[j] == 0 ->
            if
            :: db.ticket[j] == running && guard(TOKEN_OF_UNCLAIM, db.token[j] == worker[w].held[j]) ->
                claim_ends(j, w);
                requeue(j);
#if WITHOUT == FRESH_TOKEN
                db.attempt[j]--;
#endif
                promises()
            :: else
            fi;
            worker[w].held[j] = 0
        }
        commit_async
    }
}

/* The heartbeat lists a claim that the worker does not know */
inline reply_lost(j) {
    atomic {
        d_step {
            WITHOUT != HELD_CLAIMS && worker[w].state == runs && db.listed[w] && db.ticket[j] == running &&
            db.worker_id[j] == w && db.token[j] != worker[w].held[j] && lock[j] == 0 ->
            claim_ends(j, w);
            requeue(j);
#if WITHOUT == FRESH_TOKEN
            db.attempt[j]--;
#endif
            promises()
        }
        commit_async
    }
}

/* ---- The child ---- */

/* Jobs with a lost claim are missing from the batch; a cancelled job is not begun */
inline jobs_fetch() {
    d_step {
        worker[w].state == runs && worker[w].child == idle && has_claims(w) ->
        for (each(row, JOBS)) {
            if
            :: worker[w].held[row] == 0
            :: worker[w].held[row] && db.token[row] == worker[w].held[row] && !db.cancel_requested[row] ->
                worker[w].batch = worker[w].batch | (1 << row)
            :: worker[w].held[row] && db.token[row] != worker[w].held[row] ->
                worker[w].held[row] = 0
            :: else
            fi
        }
        if
        :: worker[w].batch ->
            worker[w].child = works;
            worker[w].checkpointed = (worker[w].batch & LONGS) && db.checkpoint[single(worker[w].batch)]
        :: else
        fi
    }
}

#define held_by(w, j) (db.ticket[j] == running && guard(TOKEN_OF_HOLD, db.token[j] == worker[w].held[j]))
#if SERVER
#define heard(w) (!worker[w].astray)
#else
#define heard(w) 1
#endif
inline under_way(w, what) {
    session[session_of(w)].sent = what;
    session[session_of(w)].jobs = worker[w].batch;
    for (each(column, JOBS)) {
        session[session_of(w)].token[column] = (in(worker[w].batch, column) -> worker[w].held[column] : 0)
    }
    worker[w].child = waits
}
/* One message: jobs_finish and COMMIT */
inline send_finish() {
    d_step {
        worker[w].state == runs && worker[w].child == works && session[session_of(w)].at == closed && heard(w) ->
        session[session_of(w)].at = open;
        session[session_of(w)].piece = (worker[w].batch & LONGS) && !worker[w].checkpointed;
        under_way(w, to_finish)
    }
}
/* claim_hold has answered before COMMIT is sent */
inline job_checkpoint() {
    d_step {
        worker[w].state == runs && worker[w].child == works && session[session_of(w)].at == closed && heard(w) &&
        (worker[w].batch & LONGS) && !worker[w].checkpointed && lock[single(worker[w].batch)] == 0 &&
        guard(SESSION_OF_HOLD, !elsewhere(single(worker[w].batch), session_of(w))) ->
        row = single(worker[w].batch);
        if
        :: held_by(w, row) ->
            session[session_of(w)].at = holds;
            under_way(w, to_checkpoint);
            lock[row] = session_of(w) + 1
        :: else -> worker[w].child = unsure
        fi
    }
}
/* A handler raises: its work is rolled back, attempt_end follows from the idle child */
inline raise() {
    d_step {
        (ERRORS || worker[w].batch & (db.cancel_requested[0] + 2 * db.cancel_requested[1] + 4 * db.cancel_requested[2])) &&
        worker[w].state == runs && worker[w].child == works && heard(w) -> forget(w)
    }
}
/* The session has ended: by a rescue, or with the server */
inline notice() {
    d_step {
        worker[w].state == runs && worker[w].child == waits && session[session_of(w)].at == closed && heard(w) ->
        worker[w].child = unsure
    }
}
/* After a commit without a reply, or a refused one: waits for a commit of the former session */
inline jobs_held() {
    d_step {
        worker[w].state == runs && worker[w].child == unsure &&
        guard(LOCK_OF_HELD, (!in(worker[w].batch, 0) || lock[0] == 0) && (!in(worker[w].batch, 1) || lock[1] == 0) &&
                            (!in(worker[w].batch, 2) || lock[2] == 0)) ->
        for (each(row, JOBS)) {
            if
            :: in(worker[w].batch, row) && db.token[row] != worker[w].held[row] -> worker[w].held[row] = 0
            :: else
            fi
        }
        forget(w)
    }
}

/* claim_hold: the claim is proved, and the attempt's former session has ended; before an end other than completed */
#define may_end(w, j) (worker[w].state == runs && worker[w].child == idle && worker[w].held[j] && lock[j] == 0 && \
    guard(SESSION_OF_HOLD, !elsewhere(j, session_of(w))))

/* Of a lost reply only the claim remains, which is refused at the next step */
inline job_fail(j, lost) {
    atomic {
        d_step {
            (ERRORS || BREAKS) && may_end(w, j) && (!lost || BREAKS && crashed < CRASHES) ->
            if
            :: held_by(w, j) ->
                holder_writes(w, j);
                if
                :: db.cancel_requested[j] -> job_end(j, cancelled)
                :: !db.cancel_requested[j] && db.errors[j] + 1 >= MAX_ATTEMPTS -> job_end(j, failed)
                :: else -> db.errors[j]++; requeue(j)
                fi;
                promises()
            :: else
            fi;
            if :: lost -> crashed++ :: else -> worker[w].held[j] = 0 fi
        }
        commit_durably
    }
}
inline job_end_cancelled(j) {
    atomic {
        d_step {
            may_end(w, j) && db.cancel_requested[j] ->
            if
            :: held_by(w, j) -> holder_writes(w, j); job_end(j, cancelled); promises()
            :: else
            fi;
            worker[w].held[j] = 0
        }
        commit_durably
    }
}

/* ---- The supervisor ---- */

/* SKIP LOCKED: the holder of the lock is about to commit */
inline jobs_running(j) {
    atomic {
        d_step {
            worker[w].state == runs && worker[w].batch == 1 << (j) && (worker[w].child == works || worker[w].child == waits) &&
            db.status[j] == pending && db.token[j] == worker[w].held[j] && lock[j] == 0 && heard(w) ->
            db.status[j] = running;
            db.shown[j] = session_of(w) + 1;
            promises()
        }
        commit_async
    }
}

#define blamed(w, j) (!worker[w].blameless && ((worker[w].batch & ((1 << (j)) - 1)) == 0))
inline child_ended(j) {
    atomic {
        d_step {
            worker[w].state == runs && worker[w].child == ended && in(worker[w].batch, j) && rescuable(j, w) ->
            job_rescue(j, worker[w].held[j], blamed(w, j), w);
            worker[w].held[j] = 0;
            worker[w].batch = worker[w].batch & ~(1 << (j));
            /* The job to blame is the first, and only that */
            worker[w].blameless = 1
        }
        commit_durably
    }
}
inline reap() {
    d_step { worker[w].state == runs && worker[w].child == ended && worker[w].batch == 0 -> forget(w) }
}

inline start_worker() {
    if
    :: started < WORKERS && worker[0].state == dead && worker[1].state == dead -> worker[started].state = runs; db.listed[started] = 1; started++
    :: else
    fi
}
inline end_worker(w) {
    worker[w].state = dead;
    for (each(column, JOBS)) { worker[w].held[column] = 0 }
    forget(w);
    worker[w].current = 0
}
/* The heartbeat has no row: the worker was declared dead, ends itself, and its successor starts */
inline declared_dead() {
    atomic {
        d_step { worker[w].state == runs && !db.listed[w] -> end_worker(w); start_worker() };
        commit_durably
    }
}
#if SERVER
inline session_watch() {
    d_step {
        WITHOUT != SERVER_REPLACED && worker[w].state == runs && worker[w].astray ->
        worker[w].child = ended;
        worker[w].blameless = 1;
        worker[w].astray = 0
    }
}
/* The replaced server continues, and confirms a commit that is lost */
inline lost_commit(j) {
    d_step {
        SERVER == 2 && worker[w].state == runs && worker[w].astray && in(worker[w].batch, j) ->
        for (each(column, JOBS)) { if :: in(worker[w].batch, column) -> worker[w].held[column] = 0 :: else fi }
        forget(w)
    }
}
#endif

#define EACH_JOB(step) :: step(0) :: step(1) :: step(2)

proctype Worker_process(byte w) {
    do
    EACH_JOB(claim)
    EACH_JOB(claim_without_reply)
#if !COMMANDS
    :: claim_batch(0, 1)
#endif
#if CUTOVER
    EACH_JOB(claim_job)
    :: worker_stop()
#endif
    EACH_JOB(unclaim)
    EACH_JOB(reply_lost)
    :: jobs_fetch()
    :: send_finish()
    :: job_checkpoint()
    :: raise()
    :: notice()
    :: jobs_held()
    :: job_fail(0, 0) :: job_fail(1, 0) :: job_fail(2, 0)
    :: job_fail(0, 1) :: job_fail(1, 1) :: job_fail(2, 1)
    EACH_JOB(job_end_cancelled)
    EACH_JOB(jobs_running)
    EACH_JOB(child_ended)
    :: reap()
    :: declared_dead()
#if SERVER
    :: session_watch()
    EACH_JOB(lost_commit)
#endif
    /* Faults */
    :: d_step {  /* the child is killed; what it sent is under way */
        DEATHS && crashed < CRASHES && worker[w].state == runs && worker[w].child != idle && worker[w].child != ended &&
        session[other_session(w)].at == closed ->
        crashed++;
        worker[w].child = ended;
        worker[w].current = (session[session_of(w)].at == closed -> worker[w].current : 1 - worker[w].current)
    }
    :: atomic {  /* the worker is killed with its child, and started again */
        d_step {
            DEATHS && crashed < CRASHES && (worker[w].state == runs || worker[w].state == silent) && has_claims(w) ->
            crashed++;
            end_worker(w);
            start_worker()
        }
        commit_durably
    }
    :: d_step { DEATHS && crashed < CRASHES && worker[w].state == runs && has_claims(w) -> crashed++; worker[w].state = silent }
    :: d_step { worker[w].state == silent -> worker[w].state = runs }
    :: d_step {  /* the connection breaks while the child waits for its reply */
        BREAKS && crashed < CRASHES && worker[w].state == runs && worker[w].child == waits && heard(w) &&
        session[other_session(w)].at == closed ->
        crashed++;
        worker[w].child = unsure;
        worker[w].current = 1 - worker[w].current
    }
    od
}

/* ---- A session of the server ---- */

#define client_of(s) (worker[(s) / 2].state != dead && session_of((s) / 2) == (s) && worker[(s) / 2].child == waits)
#define matches(s, j) (db.ticket[j] != gone && guard(TOKEN_OF_FINISH, db.token[j] == session[s].token[j]))
#define finishable(s, j) (!in(session[s].jobs, j) || matches(s, j))

proctype Server_session(byte s) {
    do
    :: d_step {  /* jobs_finish */
        session[s].at == open && session[s].sent == to_finish &&
        (!in(session[s].jobs, 0) || free_or_own(0, s) && guard(SESSION_OF_FINISH, !elsewhere(0, s))) &&
        (!in(session[s].jobs, 1) || free_or_own(1, s) && guard(SESSION_OF_FINISH, !elsewhere(1, s))) &&
        (!in(session[s].jobs, 2) || free_or_own(2, s) && guard(SESSION_OF_FINISH, !elsewhere(2, s))) ->
        if
        :: guard(WHOLE_BATCH, finishable(s, 0) && finishable(s, 1) && finishable(s, 2)) ->
            session[s].at = holds;
            for (each(column, JOBS)) { if :: in(session[s].jobs, column) && matches(s, column) -> lock[column] = s + 1 :: else fi }
        :: else ->
            if :: client_of(s) -> worker[s / 2].child = unsure :: else fi;
            close(s)
        fi
    }
    :: atomic {  /* COMMIT after jobs_finish */
        d_step {
            session[s].at == holds && session[s].sent == to_finish ->
            for (each(row, JOBS)) {
                if
                :: in(session[s].jobs, row) ->
                    holder_writes(s / 2, row);
                    db.work[row]++;
                    db.piece[row] = db.piece[row] + session[s].piece;
                    if :: matches(s, row) -> job_end(row, completed) :: else fi
                :: else
                fi
            }
        }
        if :: WITHOUT == DURABLE_COMMIT -> commit_async :: else -> commit_durably fi;
        d_step {
            if
            :: client_of(s) ->
                for (each(column, JOBS)) {
                    if
                    :: in(session[s].jobs, column) -> worker[s / 2].held[column] = 0; reported[column] = 1
                    :: else
                    fi
                }
                forget(s / 2)
            :: else
            fi;
            close(s);
            promises()
        }
    }
    :: atomic {  /* COMMIT after job_checkpoint */
        d_step {
            session[s].at == holds && session[s].sent == to_checkpoint ->
            row = single(session[s].jobs);
            holder_writes(s / 2, row);
            db.piece[row]++;
            db.checkpoint[row] = 1;
            db.status[row] = running;
            db.shown[row] = (db.shown[row] == 0 || WITHOUT != SESSION_OF_HOLD -> s + 1 : db.shown[row])
        }
        if :: WITHOUT == DURABLE_COMMIT -> commit_async :: else -> commit_durably fi;
        d_step {
            if
            :: client_of(s) -> worker[s / 2].child = works; worker[s / 2].checkpointed = 1
            :: else
            fi;
            close(s);
            promises()
        }
    }
    :: d_step {  /* the server notices that the client is gone */
        session[s].at != closed && (worker[s / 2].state == dead || session_of(s / 2) != s) -> close(s)
    }
    od
}

/* ---- Maintenance, users, the broker and the loss of the server ---- */

inline prune_workers(w) {
    atomic {
        d_step { db.listed[w] && (worker[w].state == dead || worker[w].state == silent) -> db.listed[w] = 0 };
        commit_durably
    }
}
inline orphans(j) {
    d_step {
        WITHOUT != RESCUE_TASK && orphan == NOBODY && db.ticket[j] == running &&
        guard(SILENT_WORKER, !db.listed[db.worker_id[j]]) ->
        orphan = j;
        orphan_token = db.token[j]
    }
}
inline rescue_orphan(j) {
    atomic {
        d_step {
            orphan == j && (db.token[j] != orphan_token && lock[j] == 0 || rescuable(j, db.worker_id[j])) ->
            job_rescue(j, orphan_token, 2, NOBODY);
            orphan = NOBODY;
            orphan_token = 0
        }
        commit_durably
    }
}

#if COMMANDS
inline job_cancel(j) {
    atomic {
        d_step {
            !asked_to_cancel[j] && lock[j] == 0 && db.status[j] != absent ->
            asked_to_cancel[j] = 1;
            if
            :: is_open(j) && WITHOUT != CLAIMED_AT_CANCEL && (db.status[j] == running || db.ticket[j] == running) ->
                db.cancel_requested[j] = 1
            :: is_open(j) && (WITHOUT == CLAIMED_AT_CANCEL || db.status[j] == pending && db.ticket[j] == ready) ->
                claim_ends(j, NOBODY);
                job_end(j, cancelled)
            :: else
            fi;
            promises()
        }
        commit_durably
    }
}
/* Two requests at once; job 1 continues job 0 */
inline job_retry() {
    atomic {
        d_step {
            retries < 2 && guard(ENDED_TO_RETRY, db.status[0] == failed || db.status[0] == cancelled) ->
            retries++;
            if
            :: guard(ONE_SUCCESSOR, !db.successor) ->
                assert(db.status[1] == absent);
                db.successor = 1;
                db.status[1] = pending;
                db.ticket[1] = ready;
                db.checkpoint[1] = db.checkpoint[0] && WITHOUT != KEPT_CHECKPOINT
            :: else
            fi;
            promises()
        }
        commit_durably
    }
}
#endif

proctype Maintenance() {
    do
    :: prune_workers(0) :: prune_workers(1) :: prune_workers(2)
    EACH_JOB(orphans)
    EACH_JOB(rescue_orphan)
    od
}

#if CUTOVER
/* A relay that ends before mark_published publishes again */
inline publish(j, marked) {
    d_step {
        db.ticket[j] == ready && db.rabbitmq[j] && !db.published[j] && !message[j] && (marked || crashed < CRASHES) ->
        message[j] = 1;
        if :: marked -> db.published[j] = 1 :: else -> crashed++ fi
    }
}
inline lose_message(j) {
    d_step { crashed < CRASHES && message[j] -> crashed++; message[j] = 0 }
}
inline unpublish(j) {
    d_step { WITHOUT != REPUBLISHED && db.published[j] && db.ticket[j] == ready && !message[j] -> db.published[j] = 0 }
}
inline reroute() {
    d_step {
        !switched ->
        switched = 1;
        for (each(row, JOBS)) {
            if
            :: db.ticket[row] == ready && lock[row] == 0 -> db.rabbitmq[row] = 0; db.published[row] = 0
            :: else
            fi
        }
        row = 0
    }
}
#define serves_rabbitmq db.listed[1]
#define serves_pool (db.listed[0] || db.listed[2])
inline move_unserved(j) {
    d_step {
        WITHOUT != MOVED_UNSERVED && db.ticket[j] == ready && lock[j] == 0 &&
        (db.rabbitmq[j] && !serves_rabbitmq && serves_pool || !db.rabbitmq[j] && !serves_pool && serves_rabbitmq) ->
        db.rabbitmq[j] = 1 - db.rabbitmq[j];
        db.published[j] = 0
    }
}
proctype Broker() {
    do
    :: publish(0, 1) :: publish(1, 1) :: publish(2, 1)
    :: publish(0, 0) :: publish(1, 0) :: publish(2, 0)
    EACH_JOB(lose_message)
    EACH_JOB(unpublish)
    EACH_JOB(move_unserved)
    :: reroute()
    od
}
#endif

#if COMMANDS
proctype Users() {
    do
    EACH_JOB(job_cancel)
    :: job_retry()
    od
}
#endif

#if REQUESTS
/* A request without an answer is committed, not confirmed; the repeated one is answered `replayed` */
inline jobs_enqueue(j) {
    atomic {
        d_step {
            in(REQUESTS, j) && db.status[j] == absent && !answered[j] -> db.status[j] = pending; db.ticket[j] = ready
        }
        if
        :: commit_durably; answered[j] = 1
        :: skip
        fi
    }
}
inline replayed(j) {
    atomic {
        db.status[j] != absent && !answered[j] ->
        if :: WITHOUT != DURABLE_REPLAY -> commit_durably :: else fi;
        answered[j] = 1
    }
}
proctype Clients() {
    do
    EACH_JOB(jobs_enqueue)
    EACH_JOB(replayed)
    od
}
#endif

#if SERVER
inline lose_server(hangs) {
    crashed++;
    for (each(row, SESSIONS)) { close(row) }
    for (each(row, WORKERS)) {
        if
        :: worker[row].child == works || worker[row].child == waits ->
            if :: hangs -> worker[row].astray = 1 :: else -> worker[row].child = unsure fi
        :: else
        fi
    }
    c_code { now.db = now.standby; };
    forget_tokens;
    promises()
}
proctype Failures() {
    do
    :: d_step { crashed < CRASHES -> lose_server(0) }
    :: d_step { crashed < CRASHES -> lose_server(1) }
    od
}
#endif

/* 1: with no step left, every job has ended */
proctype Judge() {
    atomic { timeout -> d_step { for (each(row, JOBS)) { assert(!is_open(row)) }; row = 0 } }
}

init {
    atomic {
        for (each(row, JOBS)) {
            db.status[row] = absent;
            db.ticket[row] = gone;
            if
            :: !in(PRESENT, row)
            :: else ->
                db.status[row] = pending;
                db.ticket[row] = ready;
                answered[row] = 1;
#if CUTOVER
                db.rabbitmq[row] = 1
#endif
            fi
        }
        for (each(row, SESSIONS)) { session[row].at = closed; session[row].sent = nothing }
        for (each(row, WORKERS)) {
            worker[row].state = (row < 2 -> runs : unborn);
            worker[row].child = idle;
            db.listed[row] = row < 2
        }
#if SERVER
        c_code { now.standby = now.db; };
#endif
        row = 0;
        run Worker_process(0); run Worker_process(1); run Worker_process(2);
        run Server_session(0); run Server_session(1); run Server_session(2);
        run Server_session(3); run Server_session(4); run Server_session(5);
        run Maintenance();
#if CUTOVER
        run Broker();
#endif
#if COMMANDS
        run Users();
#endif
#if SERVER
        run Failures();
#endif
#if REQUESTS
        run Clients();
#endif
        run Judge()
    }
}

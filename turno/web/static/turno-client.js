/**
 * Submit jobs to Turno and follow them, from any page: one file, no build, no dependency.
 *
 *     import { Turno } from "/static/turno-client.js";
 *     const turno = new Turno({ schema: "suc0001" });
 *     const { job_id } = await turno.submit("batch_invoicing", { order_ids: [10248] });
 *     turno.follow(job_id, (job) => console.log(job.label, job.progress.done));
 *
 * All tabs of one origin, tenant and session share one EventSource: the tab that holds a lock reads it and
 * informs the other tabs. Without a stream, that tab polls and tries the stream again from time to time.
 * Each revision of a job's state is emitted once, never an older one after a newer.
 *
 * @module turno-client
 */

/**
 * @typedef {object} Options
 * @property {string} schema The tenant.
 * @property {string} [base] Where Turno is, such as "https://turno.example"; by default this page's own origin.
 * @property {() => string | Promise<string>} [token] Gives a fresh token: for pages of other origins, whose streams
 *   then use one-use tickets. Without it the pages' cookie speaks for the user.
 * @property {string} [session] A name for the signed-in user: tabs share a stream only if it is the same.
 * @property {boolean} [everything] Watch all of the user's jobs and notifications, and not only followed jobs.
 * @property {boolean} [everyone] For operators: watch the jobs of all users of the tenant, besides one's own notifications.
 */

/**
 * @typedef {object} Job The response of `GET /api/jobs/<id>`; only the fields used here are named.
 * @property {string} job_id
 * @property {string} type
 * @property {"pending" | "running" | "completed" | "failed" | "cancelled"} status
 * @property {"completed" | "completed_with_failures" | "nothing_done" | "failed" | "cancelled" | "expired" | null} outcome
 *   Null while the job is open.
 * @property {string} label
 * @property {string | null} waiting_for
 * @property {number} revision
 * @property {{done: number, failed: number, total: number, percent: number, message: string | null}} progress
 */

/** @typedef {{id: string, job_id: string, kind: string, data: Record<string, unknown>, read_at: string | null}} Notification */
/** @typedef {"connecting" | "live" | "polling" | "offline" | "signed-out"} Connection */

const POLL_MS = 2000;
const SLOWEST_POLL_MS = 30_000;
const STREAM_AGAIN_MS = 2000;
const SLOWEST_STREAM_MS = 60_000;
const STREAM_PATIENCE_MS = 10_000;
const TICK_MS = 5000;
const ASLEEP_MS = 20_000;
const HIDDEN_MS = 60_000;
const RECOUNT_MS = 60_000; // a tab that was killed does not say that it left
const ENDED = new Set(["completed", "failed", "cancelled"]);
const MOST_KEPT = 500;

/** A refusal of the API: its problem document, its status and when to try again, in seconds. */
export class TurnoProblem extends Error {
  /**
   * @param {number} status
   * @param {Record<string, unknown>} problem
   * @param {number | null} retryAfter
   */
  constructor(status, problem, retryAfter) {
    super(String(problem.detail ?? `Turno answered ${status}`));
    this.name = "TurnoProblem";
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/**
 * One tenant of one user. Emits "job", "notification", "unread" and "connection" events; their `detail` is the new state,
 * of "unread" the number of unread notifications, at each count.
 */
export class Turno extends EventTarget {
  /** @param {Options} options */
  constructor({ schema, base = "", token, session = "", everything = false, everyone = false }) {
    super();
    this.schema = schema;
    this.base = base.replace(/\/$/, "");
    this.everything = everything || everyone;
    this.everyone = everyone;
    /** @type {Connection} */
    this.connection = "connecting";
    this._token = token;
    /** @type {Map<string, Job>} the newest known state of each job */
    this._jobs = new Map();
    /** @type {Map<string, number>} how often each job is followed in this tab */
    this._followed = new Map();
    /** @type {Set<string>} jobs that some tab follows and that have not ended */
    this._open = new Set();
    /** @type {Set<string>} emitted notifications, read ones apart */
    this._reported = new Set();
    const name = `turno ${this.base} ${schema} ${session}${everyone ? " *" : ""}`;
    this._tabs = new Tabs(name, (said) => this._hear(said));
    this._source = new Source(this);
    this._started = false;
  }

  /**
   * Submit a job. The same key is the same job, however often it is sent; by default a key is made for this call,
   * which is then safe to repeat with the network, up to `attempts` times.
   *
   * @param {string} type
   * @param {object} payload
   * @param {{key?: string, run_at?: string, run_in?: number, expires_at?: string, priority?: string, attempts?: number}} more
   * @returns {Promise<{job_id: string, status: string}>}
   */
  async submit(type, payload, { key = newKey(), attempts = 4, ...body } = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.ask("POST", `/api/jobs/${encodeURIComponent(type)}`, {
          body: { payload, ...body },
          headers: { "Idempotency-Key": key },
        });
        return /** @type {any} */ (answer.body);
      } catch (error) {
        const passing = !(error instanceof TurnoProblem) || error.status === 503 || error.status === 502;
        if (!passing || attempt >= attempts) throw error;
        await sleep(error instanceof TurnoProblem && error.retryAfter ? 1000 * error.retryAfter : 500 * 2 ** attempt);
      }
    }
  }

  /** @param {string} id */
  cancel(id) {
    return this.ask("POST", `/api/jobs/${id}/cancel`);
  }

  /** @param {string} id */
  retry(id) {
    return this.ask("POST", `/api/jobs/${id}/retry`);
  }

  /**
   * Call back with a job's state now and at every change, until it has ended.
   *
   * @param {string} id
   * @param {(job: Job) => void} tell
   * @returns {() => void} stops it
   */
  follow(id, tell) {
    /** @param {Event} event */
    const hear = (event) => {
      const job = /** @type {CustomEvent<Job>} */ (event).detail;
      if (job.job_id === id) tell(job);
    };
    const known = this._jobs.get(id);
    if (known) tell(known);
    this.addEventListener("job", hear);
    if (known && ENDED.has(known.status)) return () => this.removeEventListener("job", hear);
    this._followed.set(id, (this._followed.get(id) ?? 0) + 1);
    this._open.add(id);
    this.start();
    this._tabs.say({ open: [id] });
    this._source.look();
    let following = true;
    return () => {
      this.removeEventListener("job", hear);
      if (following) this._leave(id);
      following = false;
    };
  }

  /** Begin to listen; harmless when repeated. */
  start() {
    if (this._started) return;
    this._started = true;
    this._tabs.join(() => this._source.open());
    const announce = () => this._tabs.say({ hello: true, open: [...this._followed.keys()] });
    const again = () => {
      announce();
      this._source.again();
    };
    announce();
    this._upkeep = setInterval(() => this._tabs.leading && this._recount(), RECOUNT_MS);
    this._wake = watchForWaking(again, () => this._source.unplugged(), () => this._tabs.say({ left: true }));
  }

  /** Stop listening; another tab takes over. `start` follows the same jobs again. */
  close() {
    this._started = false;
    clearInterval(this._upkeep);
    this._wake?.();
    this._tabs.say({ left: true });
    this._tabs.leave();
    this._source.close();
    this.connection = "connecting";
  }

  /**
   * Ask the API.
   *
   * @param {string} method
   * @param {string} path
   * @param {{body?: object, headers?: Record<string, string>}} more
   * @returns {Promise<{status: number, headers: Headers, body: any}>} `body` is null for 304; throws TurnoProblem
   */
  async ask(method, path, { body, headers = {} } = {}) {
    /** @type {Record<string, string>} */
    const sent = { "X-Schema": this.schema, ...headers };
    if (this._token) sent.Authorization = `Bearer ${await this._token()}`;
    if (body) sent["Content-Type"] = "application/json";
    const answer = await fetch(this.base + path, {
      method,
      headers: sent,
      body: body ? JSON.stringify(body) : undefined,
      credentials: this._token ? "omit" : "same-origin",
      cache: "no-store",
    });
    if (answer.status === 304) return { status: 304, headers: answer.headers, body: null };
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new TurnoProblem(answer.status, said, seconds(answer.headers));
    return { status: answer.status, headers: answer.headers, body: said };
  }

  /** @returns {Promise<string>} the address of a new stream, with a ticket where there is no cookie */
  async _streamAddress() {
    const query = new URLSearchParams({ schema: this.schema });
    if (this.everyone) query.set("user", "*");
    if (this._token) query.set("ticket", (await this.ask("POST", "/api/stream-tickets")).body.ticket);
    return `${this.base}/api/stream?${query}`;
  }

  /** @param {Job} job */
  _takeJob(job) {
    const known = this._jobs.get(job.job_id);
    if (known && !newer(job, known)) return;
    this._jobs.delete(job.job_id);
    this._jobs.set(job.job_id, job);
    forgetOldest(this._jobs);
    if (ENDED.has(job.status)) {
      this._open.delete(job.job_id);
      this._followed.delete(job.job_id);
    } else if (this.everything) this._open.add(job.job_id);
    this.dispatchEvent(new CustomEvent("job", { detail: job }));
    if (this._tabs.leading) this._tabs.say({ job });
  }

  /** @param {Notification} notification */
  _takeNotification(notification) {
    const name = `${notification.id} ${notification.read_at !== null}`;
    if (this._reported.has(name)) return;
    this._reported.add(name);
    forgetOldest(this._reported);
    this.dispatchEvent(new CustomEvent("notification", { detail: notification }));
    if (this._tabs.leading) this._tabs.say({ notification });
  }

  /** @param {number} unread */
  _takeUnread(unread) {
    this.dispatchEvent(new CustomEvent("unread", { detail: unread }));
    if (this._tabs.leading) this._tabs.say({ unread });
  }

  /** @param {Connection} connection */
  _takeConnection(connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    this.dispatchEvent(new CustomEvent("connection", { detail: connection }));
    if (this._tabs.leading) this._tabs.say({ connection });
  }

  /**
   * The last follower of the job in this tab has left.
   * @param {string} id
   */
  _leave(id) {
    const left = (this._followed.get(id) ?? 0) - 1;
    if (left > 0) this._followed.set(id, left);
    else if (this._followed.delete(id)) {
      if (!this.everything) this._open.delete(id);
      if (this._tabs.leading) this._recount();
      else this._tabs.say({ left: true });
    }
  }

  /** Watch only jobs that a tab still follows: this tab's jobs, and the jobs that the other tabs report on request. */
  _recount() {
    this._open = new Set(this._followed.keys());
    if (this.everything) for (const job of this._jobs.values()) if (!ENDED.has(job.status)) this._open.add(job.job_id);
    this._source.forget(this._open);
    this._tabs.say({ who: true });
  }

  /**
   * Handle a message of another tab.
   * @param {any} said
   */
  _hear(said) {
    if (this._tabs.leading) {
      if (said.hello) {
        this._tabs.say({ connection: this.connection });
        for (const job of this._jobs.values()) this._tabs.say({ job });
      }
      for (const id of said.open ?? []) {
        const known = this._jobs.get(id);
        if (known && ENDED.has(known.status)) this._tabs.say({ job: known });
        else if (!this._open.has(id)) this._open.add(id);
      }
      if (said.open) this._source.look();
      if (said.left) this._recount();
      return;
    }
    if (said.leading) this._tabs.say({ hello: true, open: [...this._followed.keys()] });
    if (said.who) this._tabs.say({ open: [...this._followed.keys()] });
    if (said.job) this._takeJob(said.job);
    if (said.notification) this._takeNotification(said.notification);
    if (said.unread !== undefined) this._takeUnread(said.unread);
    if (said.connection) this._takeConnection(said.connection);
  }
}

/** Where news come from in the leading tab: the stream, and polling while there is none. */
class Source {
  /** @param {Turno} turno */
  constructor(turno) {
    this.turno = turno;
    /** @type {EventSource | null} */
    this.events = null;
    /** @type {Map<string, string>} ETags of polled jobs */
    this.etags = new Map();
    /** @type {Set<string>} jobs that the present stream has sent */
    this.streamed = new Set();
    this.opened = false;
    this.streaming = false;
    this.generation = 0;
    this.failures = 0;
    this.pollEvery = POLL_MS;
  }

  open() {
    if (this.opened) return;
    this.opened = true;
    this._connect();
  }

  close() {
    this.opened = false;
    this.generation += 1;
    this._drop();
    clearTimeout(this.streamTimer);
    clearTimeout(this.pollTimer);
    this.pollTimer = undefined;
  }

  /** Begin anew, for example after sleep: a connection may be dead without a word. */
  again() {
    if (!this.opened) return;
    this.failures = 0;
    this.pollEvery = POLL_MS;
    this._connect();
  }

  /** The network is gone; an open connection would not say so for minutes. */
  unplugged() {
    if (this.opened) this._lost();
  }

  /** A tab follows another job: poll it soon if the stream is missing, or does not send this job. */
  look() {
    if (!this.opened || (this.streaming && this._unreported().length === 0)) return;
    this.pollEvery = POLL_MS;
    this._pollIn(this.streaming ? POLL_MS : 0);
  }

  /**
   * Only these jobs are still followed.
   * @param {Set<string>} open
   */
  forget(open) {
    for (const id of this.etags.keys()) if (!open.has(id)) this.etags.delete(id);
    this._settle();
  }

  /** @returns {string[]} the open jobs to poll: all of them without a stream */
  _unreported() {
    return [...this.turno._open].filter((id) => !this.streaming || !this.streamed.has(id));
  }

  /** The connection is live once the stream covers all open jobs, without polling. */
  _settle() {
    if (!this.streaming || this._unreported().length > 0) return;
    clearTimeout(this.pollTimer);
    this.pollTimer = undefined;
    this.turno._takeConnection("live");
  }

  /** @param {Job} job */
  _streamed(job) {
    if (ENDED.has(job.status)) this.streamed.delete(job.job_id);
    else this.streamed.add(job.job_id);
    this.turno._takeJob(job);
    if (this.turno.connection !== "live") this._settle();
  }

  async _connect() {
    const generation = ++this.generation;
    this._drop();
    clearTimeout(this.streamTimer);
    // Poll while the stream is slow or missing.
    if (this.pollTimer === undefined) this._pollIn(POLL_MS);
    let address;
    try {
      address = await this.turno._streamAddress();
    } catch (error) {
      if (generation === this.generation) this._lost(error);
      return;
    }
    if (generation !== this.generation || !this.opened) return;
    const events = (this.events = new EventSource(address));
    const mine = () => generation === this.generation;
    // A proxy may hold the stream back for ever without closing it.
    this.streamTimer = setTimeout(() => mine() && this._lost(), STREAM_PATIENCE_MS);
    events.addEventListener("job", (event) => mine() && this._streamed(JSON.parse(event.data)));
    events.addEventListener("notification", (event) => mine() && this.turno._takeNotification(JSON.parse(event.data)));
    events.addEventListener("ready", (event) => mine() && this._live(JSON.parse(event.data)));
    events.addEventListener("bye", () => mine() && this._connectIn(200 + 800 * Math.random()));
    events.addEventListener("error", () => mine() && this._lost());
  }

  /** @param {{unread: number}} counted */
  _live({ unread }) {
    clearTimeout(this.streamTimer);
    clearTimeout(this.pollTimer);
    this.pollTimer = undefined;
    this.streaming = true;
    this.failures = 0;
    this.pollEvery = POLL_MS;
    this.turno._takeUnread(unread);
    this._settle();
    // The stream's first state lacks jobs that ended while it was closed, and jobs of other users.
    if (this._unreported().length > 0) this._poll();
  }

  /** @param {unknown} [error] */
  _lost(error) {
    this._drop();
    if (error instanceof TurnoProblem && error.status === 401) return this._signedOut();
    const wait = Math.min(SLOWEST_STREAM_MS, STREAM_AGAIN_MS * 2 ** this.failures);
    this.failures += 1;
    const after = error instanceof TurnoProblem && error.retryAfter ? 1000 * error.retryAfter : 0;
    this._connectIn(Math.max(after, wait * (0.75 + 0.5 * Math.random())));
    if (this.turno.connection !== "polling") this._pollIn(0);
  }

  /** @param {number} wait */
  _connectIn(wait) {
    this._drop();
    clearTimeout(this.streamTimer);
    this.streamTimer = setTimeout(() => this._connect(), wait);
  }

  _signedOut() {
    this.close();
    this.turno._takeConnection("signed-out");
  }

  _drop() {
    this.events?.close();
    this.events = null;
    this.streaming = false;
    this.streamed.clear();
  }

  /** @param {number} wait */
  _pollIn(wait) {
    clearTimeout(this.pollTimer);
    this.pollTimer = setTimeout(() => this._poll(), wait);
  }

  /** Poll once all jobs that the stream does not cover, less and less often while nothing changes. */
  async _poll() {
    const began = this.turno._jobs.size;
    let changed = false;
    let after = 0;
    const note = () => (changed = true);
    this.turno.addEventListener("job", note);
    try {
      for (const id of this._unreported()) after = Math.max(after, await this._pollJob(id));
      if (!this.streaming) await this._pollBeside();
      if (this.opened && (!this.streaming || this._unreported().length > 0)) this.turno._takeConnection("polling");
    } catch (error) {
      if (!this.opened) return;
      if (error instanceof TurnoProblem && error.status === 401) return this._signedOut();
      if (error instanceof TurnoProblem) after = error.retryAfter ?? 0;
      if (!this.streaming) this.turno._takeConnection(error instanceof TurnoProblem ? "polling" : "offline");
    } finally {
      this.turno.removeEventListener("job", note);
    }
    if (!this.opened) return;
    if (this.streaming && this._unreported().length === 0) return this._settle();
    changed ||= this.turno._jobs.size !== began;
    this.pollEvery = changed ? POLL_MS : Math.min(SLOWEST_POLL_MS, 1.5 * this.pollEvery);
    this._pollIn(Math.max(this.pollEvery, 1000 * after));
  }

  /** Poll the events that a stream would have sent. */
  async _pollBeside() {
    if (this.turno.everything) await this._pollEverything();
    // Without an open job, request a page anyway: an EventSource does not report why it was refused.
    else if (this.turno._open.size === 0) await this.turno.ask("GET", "/api/notifications?limit=1");
  }

  /** @param {string} id @returns {Promise<number>} the seconds to wait, from the response */
  async _pollJob(id) {
    const etag = this.etags.get(id);
    try {
      const answer = await this.turno.ask("GET", `/api/jobs/${id}`, { headers: etag ? { "If-None-Match": etag } : {} });
      if (answer.body) this.turno._takeJob(answer.body);
      if (this.turno._open.has(id)) this.etags.set(id, answer.headers.get("ETag") ?? "");
      else this.etags.delete(id);
      return seconds(answer.headers) ?? 0;
    } catch (error) {
      if (!(error instanceof TurnoProblem) || error.status !== 404) throw error;
      this.turno._open.delete(id); // purged, or not this user's
      this.etags.delete(id);
      return 0;
    }
  }

  async _pollEverything() {
    const whose = this.turno.everyone ? "&user=*" : "";
    const jobs = await this.turno.ask("GET", `/api/jobs?status=pending&status=running&limit=50${whose}`);
    for (const job of jobs.body.jobs) this.turno._takeJob(job);
    const answer = await this.turno.ask("GET", "/api/notifications?unread=true&limit=20");
    for (const notification of answer.body.notifications) this.turno._takeNotification(notification);
    this.turno._takeUnread(answer.body.unread);
  }
}

/** The tabs that share a stream: one leads, by a lock that ends with it. Without locks each tab leads itself. */
class Tabs {
  /** @param {string} name @param {(said: any) => void} hear */
  constructor(name, hear) {
    this.name = name;
    this.hear = hear;
    this.leading = false;
    /** @type {BroadcastChannel | null} */
    this.channel = null;
  }

  /** @param {() => void} begin called when this tab leads */
  join(begin) {
    const lead = () => {
      this.leading = true;
      this.say({ leading: true });
      begin();
    };
    if (!("BroadcastChannel" in globalThis && navigator.locks)) return lead();
    this.channel = new BroadcastChannel(this.name);
    this.channel.onmessage = (event) => this.hear(event.data);
    const abort = (this.abort = new AbortController());
    navigator.locks
      .request(this.name, { signal: abort.signal }, () => {
        if (abort.signal.aborted) return;
        lead();
        return new Promise((resolve) => (this.release = () => resolve(undefined)));
      })
      .catch(() => {
        // Locks are refused where storage is, for example in a sandboxed frame.
        if (!abort.signal.aborted) lead();
      });
  }

  /** @param {object} said */
  say(said) {
    this.channel?.postMessage(said);
  }

  /** Have nothing more to do with the others, until `join`. */
  leave() {
    this.leading = false;
    this.abort?.abort();
    this.release?.();
    this.channel?.close();
    this.channel = null;
  }
}

/**
 * Call when the machine woke, the network came back, or the page was hidden for long; when the network went; and when
 * the page goes.
 *
 * @param {() => void} wake
 * @param {() => void} lose
 * @param {() => void} go
 * @returns {() => void} stops it
 */
function watchForWaking(wake, lose, go) {
  let last = Date.now();
  let hidden = 0;
  const tick = setInterval(() => {
    const now = Date.now();
    if (now - last > ASLEEP_MS) wake();
    last = now;
  }, TICK_MS);
  const seen = () => {
    if (document.visibilityState === "hidden") hidden = Date.now();
    else if (hidden && Date.now() - hidden > HIDDEN_MS) wake();
  };
  /** @param {PageTransitionEvent} event */
  const shown = (event) => event.persisted && wake();
  addEventListener("online", wake);
  addEventListener("offline", lose);
  addEventListener("pageshow", shown);
  addEventListener("pagehide", go);
  document.addEventListener("visibilitychange", seen);
  return () => {
    clearInterval(tick);
    removeEventListener("online", wake);
    removeEventListener("offline", lose);
    removeEventListener("pageshow", shown);
    removeEventListener("pagehide", go);
    document.removeEventListener("visibilitychange", seen);
  };
}

/**
 * A label, or the condition that it waits for, may change by time alone, without a new revision.
 *
 * @param {Job} job
 * @param {Job} known
 */
function newer(job, known) {
  if (job.revision !== known.revision) return job.revision > known.revision;
  return job.label !== known.label || job.waiting_for !== known.waiting_for;
}

/** @param {Headers} headers @returns {number | null} */
function seconds(headers) {
  const text = headers.get("Retry-After");
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
}

/**
 * Keep the newest entries.
 *
 * @param {Map<string, any> | Set<string>} kept
 */
function forgetOldest(kept) {
  if (kept.size > MOST_KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
}

/** @param {number} milliseconds */
function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** crypto.randomUUID is missing on plain HTTP. */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

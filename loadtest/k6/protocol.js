// The common part of the scenarios: requests about timers, checks of the answers, and reports to the receiver (receiver
// -check). The receiver judges every callback by the reported operations.
//
//   CHRONOS_URL   node, without a slash at the end     (http://127.0.0.1:7253)
//   RECEIVER_URL  receiver, as the node reaches it     (http://127.0.0.1:9000)
//   RATE          operations a second                  (500)
//   DURATION      of the load                          (60s)
//   P99_MS        bound on the p99 of answer times     (100)
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const chronos = __ENV.CHRONOS_URL || 'http://127.0.0.1:7253';
const receiver = __ENV.RECEIVER_URL || 'http://127.0.0.1:9000';
const p99Ms = Number(__ENV.P99_MS || 100);

export const rate = Number(__ENV.RATE || 500);

const operations = new Counter('operations');

// arrivals are the options of a scenario: an operation per iteration, at a rate that does not wait for answers.
export function arrivals(name, kinds, users) {
  return {
    summaryTrendStats: ['avg', 'min', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max'],
    scenarios: {
      [name]: {
        executor: 'constant-arrival-rate',
        rate,
        timeUnit: '1s',
        duration: __ENV.DURATION || '60s',
        preAllocatedVUs: users,
        maxVUs: 2 * users,
        gracefulStop: '10s',
      },
    },
    thresholds: Object.assign(
      {
        checks: ['rate==1'],
        dropped_iterations: ['count==0'], // otherwise the rate was too low
      },
      ...kinds.map((op) => ({
        [`http_req_duration{op:${op}}`]: [`p(99)<${p99Ms}`],
        [`http_req_failed{op:${op}}`]: ['rate==0'],
        [`operations{op:${op}}`]: ['count>=0'], // k6 exports a metric only with a threshold; command load asks for more
      })),
    ),
  };
}

// write creates or replaces a timer, and returns the id. The id is '' if anything about the answer was wrong. Members
// of w:
//
//   op                       label of the figures
//   kind                     kind of operation for the receiver: create or refresh
//   session, revision        the scenario's name for the timer, and the number of the request about the timer, from 1
//   id                       empty for a POST, else the id of the PUT
//   intervalMs, repeatForMs  repeatForMs is 0 for a single callback
//   opaque                   body of the callback
//   idempotencyKey           optional, for a POST
export function write(w) {
  const params = paramsOf(w, w.op);
  const sentMs = Date.now();
  const response =
    w.id === ''
      ? http.post(`${chronos}/timers`, bodyOf(w), params)
      : http.put(`${chronos}/timers/${w.id}`, bodyOf(w), params);
  const answeredMs = Date.now();
  const timer = timerOf(response);
  const due = Date.parse(timer.due);
  const ok = check(
    response,
    {
      'status is 200': (r) => r.status === 200,
      'location is /timers/<id>': (r) => timer.id !== undefined && r.headers['Location'] === `/timers/${timer.id}`,
      'key is that of the id': () => keyOf(timer.id) === timer.key,
      'a PUT keeps the key': () => w.id === '' || timer.key === keyOf(w.id),
      'due after one interval': () => due >= sentMs + w.intervalMs && due <= answeredMs + 1 + w.intervalMs + 5,
      'one copy at least': () => timer.copies >= 1,
      'it is no repeat': (r) => r.headers['Idempotent-Replayed'] === undefined,
    },
    { op: w.op },
  );
  operations.add(1, { op: w.op });
  const known = response.status === 200 && timer.id !== undefined;
  tell([
    {
      session: w.session,
      revision: w.revision,
      op: w.kind,
      id: known ? timer.id : w.id,
      ok: known,
      in_flight: inFlight(response),
      sent_ms: sentMs,
      answered_ms: answeredMs,
      interval_ms: w.intervalMs,
      pops: w.repeatForMs === 0 ? 1 : Math.floor(w.repeatForMs / w.intervalMs),
      body: w.opaque,
    },
  ]);
  return ok ? timer.id : '';
}

// repeat sends a POST once more with the same idempotency key, like a client that got no answer. The receiver does not
// learn of the repetition, because the repetition must have no effect.
export function repeat(w, id, op) {
  const response = http.post(`${chronos}/timers`, bodyOf(w), paramsOf(w, op));
  const timer = timerOf(response);
  check(
    response,
    {
      'status is 200': (r) => r.status === 200,
      'the same timer': (r) => timer.id === id && r.headers['Location'] === `/timers/${id}`,
      'it is a repeat': (r) => r.headers['Idempotent-Replayed'] === 'true',
    },
    { op },
  );
  operations.add(1, { op });
}

// end deletes timers, all at once. A timer is given as {session, revision, id}.
export function end(ended, op) {
  const params = { tags: { op, name: op } };
  const sentMs = Date.now();
  const responses = http.batch(ended.map((timer) => ['DELETE', `${chronos}/timers/${timer.id}`, null, params]));
  const answeredMs = Date.now();
  tell(
    ended.map((timer, i) => {
      check(responses[i], { 'status is 201': (r) => r.status === 201 }, { op });
      operations.add(1, { op });
      return {
        session: timer.session,
        revision: timer.revision + 1,
        op: 'end',
        id: timer.id,
        ok: responses[i].status === 201,
        in_flight: inFlight(responses[i]),
        sent_ms: sentMs,
        answered_ms: answeredMs,
      };
    }),
  );
}

// live returns the timers that were not ended, including the timers that have fired.
export function live() {
  return http.get(`${receiver}/control/live`, { tags: { op: 'live', name: 'live' } }).json();
}

// tell makes operations known to the receiver. Times are from this machine's wall clock, rounded down.
function tell(done) {
  const body = done.map((operation) => JSON.stringify(operation)).join('\n');
  const response = http.post(`${receiver}/control/expect`, body, { tags: { op: 'tell', name: 'tell' } });
  check(response, { 'receiver knows': (r) => r.status === 200 }, { op: 'tell' });
}

function bodyOf(w) {
  const timing = { interval: w.intervalMs / 1000 };
  if (w.repeatForMs > 0) {
    timing['repeat-for'] = w.repeatForMs / 1000;
  }
  const uri = `${receiver}/cb/${w.session}/${w.revision}`;
  return JSON.stringify({ timing, callback: { http: { uri, opaque: w.opaque } } });
}

function paramsOf(w, op) {
  const headers = { 'Content-Type': 'application/json' };
  if (w.idempotencyKey) {
    headers['Idempotency-Key'] = w.idempotencyKey;
  }
  return { headers, tags: { op, name: op } };
}

function timerOf(response) {
  try {
    return response.status === 200 ? response.json() : {};
  } catch (_) {
    return {}; // the checks report the fault
  }
}

function inFlight(response) {
  return response.headers['X-Chronos-In-Flight'] === 'true';
}

function keyOf(id) {
  return (id || '').replace(/-\d+-[0-9a-f]{16}$/, '');
}

// Scenario "interim": the timers of a charging function (Ralf). A call in progress is a recurring timer that asks for the
// next INTERIM message; it is refreshed while the call goes on and ended when the call ends. Should the end be lost, the
// timer stops by itself after repeat-for.
//
// Every answer is checked here, every callback by the receiver (receiver -check), which is told what was asked for.
//
//   CHRONOS_URL   node, without a slash at the end     (http://127.0.0.1:7253)
//   RECEIVER_URL  receiver, as the node reaches it     (http://127.0.0.1:9000)
//   RATE          operations a second                  (500)
//   DURATION      of the load                          (60s)
//   INTERVAL_S    seconds from one INTERIM to the next (1)
//   REPEAT_FOR_S  seconds a timer lives unrefreshed    (120)
//   P99_MS        the most that 99 % of answers take   (100)
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';
import exec from 'k6/execution';

const chronos = __ENV.CHRONOS_URL || 'http://127.0.0.1:7253';
const receiver = __ENV.RECEIVER_URL || 'http://127.0.0.1:9000';
const intervalMs = Math.round(Number(__ENV.INTERVAL_S || 1) * 1000);
const repeatForMs = Math.round(Number(__ENV.REPEAT_FOR_S || 120) * 1000);
const p99Ms = Number(__ENV.P99_MS || 100);

// Shares of the operations. While nobody is calling, a refresh or an end becomes a create.
const createShare = 0.3;
const refreshShare = 0.45;

const batch = 50; // ends sent at a time after the load

const users = 150; // enough for the operations that pile up while the machine is busy for 300 ms

const kinds = ['create', 'refresh', 'end'];

export const options = {
  summaryTrendStats: ['avg', 'min', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max'],
  scenarios: {
    interim: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 500),
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
      dropped_iterations: ['count==0'], // else the rate was not what was asked for
    },
    ...kinds.map((op) => ({
      [`http_req_duration{op:${op}}`]: [`p(99)<${p99Ms}`],
      [`http_req_failed{op:${op}}`]: ['rate==0'],
      [`operations{op:${op}}`]: ['count>0'],
    })),
  ),
};

const operations = new Counter('operations');

const json = { 'Content-Type': 'application/json' };

// Each virtual user has calls of its own.
const calls = [];
let made = 0;

export default function () {
  const choice = Math.random();
  if (calls.length === 0 || choice < createShare) {
    made++;
    put({ session: `${exec.vu.idInTest}-${made}`, revision: 0, id: '' });
    return;
  }
  const index = Math.floor(Math.random() * calls.length);
  const call = calls[index];
  calls[index] = calls[calls.length - 1]; // taken out: one that failed is left to teardown
  calls.pop();
  if (choice < createShare + refreshShare) {
    put(call);
  } else {
    end([call], 'end');
  }
}

// put creates the timer of a call, or refreshes it if it has one.
function put(call) {
  const op = call.id === '' ? 'create' : 'refresh';
  const revision = call.revision + 1;
  const opaque = JSON.stringify({ call: call.session, interim: revision });
  const body = JSON.stringify({
    timing: { interval: intervalMs / 1000, 'repeat-for': repeatForMs / 1000 },
    callback: { http: { uri: `${receiver}/cb/${call.session}/${revision}`, opaque } },
  });
  const params = { headers: json, tags: { op, name: op } };
  const sentMs = Date.now();
  const response =
    op === 'create'
      ? http.post(`${chronos}/timers`, body, params)
      : http.put(`${chronos}/timers/${call.id}`, body, params);
  const answeredMs = Date.now();
  const location = response.headers['Location'] || '';
  const timer = response.status === 200 ? parsed(response) : {};
  const due = Date.parse(timer.due);
  const ok = check(
    response,
    {
      'status is 200': (r) => r.status === 200,
      'location is /timers/<id>': () => timer.id !== undefined && location === `/timers/${timer.id}`,
      'key is that of the id': () => keyOf(timer.id) === timer.key,
      'a refresh keeps the key': () => op === 'create' || timer.key === keyOf(call.id),
      'due after one interval': () => due >= sentMs + intervalMs && due <= answeredMs + 1 + intervalMs + 5,
      'one copy at least': () => timer.copies >= 1,
    },
    { op },
  );
  operations.add(1, { op });
  const known = response.status === 200 && timer.id !== undefined;
  tell([
    {
      session: call.session,
      revision,
      op,
      id: known ? timer.id : call.id,
      ok: known,
      in_flight: inFlight(response),
      sent_ms: sentMs,
      answered_ms: answeredMs,
      interval_ms: intervalMs,
      pops: Math.floor(repeatForMs / intervalMs),
      body: opaque,
    },
  ]);
  if (ok) {
    calls.push({ session: call.session, revision, id: timer.id });
  }
}

// end deletes the timers of calls, all at once. The label tells those that are part of the load from those after it.
function end(ended, label) {
  const params = { tags: { op: label, name: label } };
  const sentMs = Date.now();
  const responses = http.batch(ended.map((call) => ['DELETE', `${chronos}/timers/${call.id}`, null, params]));
  const answeredMs = Date.now();
  tell(
    ended.map((call, i) => {
      check(responses[i], { 'status is 201': (r) => r.status === 201 }, { op: label });
      operations.add(1, { op: label });
      return {
        session: call.session,
        revision: call.revision + 1,
        op: 'end',
        id: call.id,
        ok: responses[i].status === 201,
        in_flight: inFlight(responses[i]),
        sent_ms: sentMs,
        answered_ms: answeredMs,
      };
    }),
  );
}

// tell makes operations known to the receiver. Times are this machine's wall clock, rounded down.
function tell(done) {
  const body = done.map((operation) => JSON.stringify(operation)).join('\n');
  const response = http.post(`${receiver}/control/expect`, body, { tags: { op: 'tell', name: 'tell' } });
  check(response, { 'receiver knows': (r) => r.status === 200 }, { op: 'tell' });
}

function inFlight(response) {
  return response.headers['X-Chronos-In-Flight'] === 'true';
}

function parsed(response) {
  try {
    return response.json();
  } catch (_) {
    return {}; // the checks say so
  }
}

function keyOf(id) {
  return (id || '').replace(/-\d+-[0-9a-f]{16}$/, '');
}

// teardown ends the calls that are left.
export function teardown() {
  const left = http.get(`${receiver}/control/live`, { tags: { op: 'live', name: 'live' } }).json();
  for (let i = 0; i < left.length; i += batch) {
    end(left.slice(i, i + batch), 'cleanup');
  }
}

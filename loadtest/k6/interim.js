// Scenario "interim": the timers of a charging function (Ralf). A call in progress is a recurring timer that asks for the
// next INTERIM message; it is refreshed while the call goes on and ended when the call ends. Should the end be lost, the
// timer stops by itself after repeat-for.
//
// Every answer is checked here, every callback by the receiver. Beside the variables of protocol.js:
//
//   INTERVAL_S    seconds from one INTERIM to the next (1)
//   REPEAT_FOR_S  seconds a timer lives unrefreshed    (120)
import exec from 'k6/execution';

import { arrivals, end, live, write } from './protocol.js';

const intervalMs = Math.round(Number(__ENV.INTERVAL_S || 1) * 1000);
const repeatForMs = Math.round(Number(__ENV.REPEAT_FOR_S || 120) * 1000);

// Shares of the operations. While nobody is calling, a refresh or an end becomes a create.
const createShare = 0.3;
const refreshShare = 0.45;

const batch = 50; // ends sent at a time after the load

const users = 150; // enough for the operations that pile up while the machine is busy for 300 ms

export const options = arrivals('interim', ['create', 'refresh', 'end'], users);

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
  const session = call.session;
  const revision = call.revision + 1;
  const opaque = JSON.stringify({ call: session, interim: revision });
  const id = write({ op, kind: op, session, revision, id: call.id, intervalMs, repeatForMs, opaque });
  if (id !== '') {
    calls.push({ session, revision, id });
  }
}

// teardown ends the calls that are left. The label tells them from those that are part of the load.
export function teardown() {
  const left = live();
  for (let i = 0; i < left.length; i += batch) {
    end(left.slice(i, i + batch), 'cleanup');
  }
}

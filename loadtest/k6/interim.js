// Scenario "interim": the timers of a charging function (Ralf). A call in progress has a recurring timer that asks for
// the next INTERIM message. The timer is refreshed while the call goes on, and ended when the call ends. If the end is
// lost, the timer stops by itself after repeat-for.
//
// This script checks every answer, and the receiver checks every callback. Variables beside the variables of
// protocol.js:
//
//   INTERVAL_S    seconds from an INTERIM to the next       (1)
//   REPEAT_FOR_S  seconds that a timer lives unrefreshed    (120)
import exec from 'k6/execution';

import { arrivals, end, live, write } from './protocol.js';

const intervalMs = Math.round(Number(__ENV.INTERVAL_S || 1) * 1000);
const repeatForMs = Math.round(Number(__ENV.REPEAT_FOR_S || 120) * 1000);

// Shares of the operations. While no call is in progress, a refresh or an end becomes a create.
const createShare = 0.3;
const refreshShare = 0.45;

const batch = 50; // ends in a batch after the load

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
  calls[index] = calls[calls.length - 1]; // taken out: a call whose operation fails is left to teardown
  calls.pop();
  if (choice < createShare + refreshShare) {
    put(call);
  } else {
    end([call], 'end');
  }
}

// put creates the timer of a call, or refreshes the timer if the call has a timer.
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

// teardown ends the remaining calls. The label separates these ends from the operations of the load.
export function teardown() {
  const left = live();
  for (let i = 0; i < left.length; i += batch) {
    end(left.slice(i, i + batch), 'cleanup');
  }
}

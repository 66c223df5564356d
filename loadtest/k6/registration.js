// Scenario "registration": the timers of a SIP registrar (Sprout), each for a single callback.
//
// A registration has a timer for its expiry. A POST sets the timer when the user registers. A PUT replaces the timer,
// mostly with a different expiry, when the user registers again. A DELETE ends the timer when the user leaves. If the
// registration expires, the callback comes, and the registrar would send NOTIFY.
//
// Some users send the POST with an Idempotency-Key, and then once more. The repetition follows at once, as if the
// answer had been lost, or when the registration is over.
//
// A nonce is handed out with a challenge, and has a timer under an id of the registrar's own, set by PUT. Most nonces
// age out, and the callback comes; some nonces are used and deleted.
//
// This script checks every answer, and the receiver checks every callback. The remaining timers fire by themselves, the
// last timer 1.5 EXPIRES_S after the load. Variables beside the variables of protocol.js:
//
//   USERS      users that register   (6 a RATE: each user does something every 10 s)
//   EXPIRES_S  seconds to expiry     (8; half of EXPIRES_S and 1.5 times EXPIRES_S are as frequent)
import crypto from 'k6/crypto';
import exec from 'k6/execution';

import { arrivals, end, rate, repeat, write } from './protocol.js';

const expiresMs = Math.round(Number(__ENV.EXPIRES_S || 8) * 1000);
const nonceMs = { least: 2000, most: 5000 };

const nonceShare = 0.4; // of the operations
const usedShare = 0.2; // of the operations about nonces
const leaveShare = 0.25; // of the operations of registered users
const keyedShare = 0.25; // of the POSTs
const lateShare = 0.3; // of the repeats

const vus = Math.max(20, Math.ceil(0.3 * rate)); // enough for the operations that pile up while the machine is busy for 300 ms
const usersOfEach = Math.max(1, Math.round(Number(__ENV.USERS || 6 * rate) / vus));

export const options = arrivals(
  'registration',
  ['register', 'repeat', 'refresh', 'deregister', 'nonce', 'use'],
  vus,
);

// Each virtual user plays some users, and has nonces of its own.
const users = Array.from({ length: usersOfEach }, () => ({ registration: null }));
let nonces = []; // {session, revision, id, endsMs}
const repeats = []; // {request, id, fromMs}
let made = 0;

export default function () {
  const again = repeats.findIndex((r) => r.fromMs <= Date.now());
  if (again >= 0) {
    const [{ request, id }] = repeats.splice(again, 1);
    repeat(request, id, 'repeat');
  } else if (Math.random() < nonceShare) {
    challenge();
  } else {
    user();
  }
}

// user makes the next operation of a user.
function user() {
  const one = users[Math.floor(Math.random() * users.length)];
  const current = one.registration;
  one.registration = null; // after a failed operation, the registration is left to expire
  if (current === null || current.endsMs <= Date.now()) {
    one.registration = register();
  } else if (Math.random() < leaveShare) {
    end([current], 'deregister');
  } else {
    one.registration = refresh(current);
  }
}

function register() {
  made++;
  const session = `user-${exec.vu.idInTest}-${made}`;
  const idempotencyKey = Math.random() < keyedShare ? `register-${random()}` : '';
  const request = registration('register', 'create', { session, revision: 0, id: '' }, idempotencyKey);
  const written = setTimer(request);
  if (written !== null && idempotencyKey !== '') {
    const late = Math.random() < lateShare;
    repeats.push({ request, id: written.id, fromMs: late ? written.endsMs + expiresMs / 4 : 0 });
  }
  return written;
}

function refresh(current) {
  return setTimer(registration('refresh', 'refresh', current, ''));
}

function registration(op, kind, current, idempotencyKey) {
  const { session, id } = current;
  const revision = current.revision + 1;
  const intervalMs = (expiresMs * (1 + Math.floor(3 * Math.random()))) / 2;
  const opaque = JSON.stringify({ aor: `sip:${session}@example.com`, cseq: revision, expires: intervalMs / 1000 });
  return { op, kind, session, revision, id, intervalMs, repeatForMs: 0, opaque, idempotencyKey };
}

// challenge hands out a nonce, or uses a nonce.
function challenge() {
  nonces = nonces.filter((nonce) => nonce.endsMs > Date.now());
  if (nonces.length > 0 && Math.random() < usedShare) {
    end(nonces.splice(Math.floor(Math.random() * nonces.length), 1), 'use');
    return;
  }
  made++;
  const session = `nonce-${exec.vu.idInTest}-${made}`;
  const nonce = random();
  const written = setTimer({
    op: 'nonce',
    kind: 'create',
    session,
    revision: 1,
    id: `nonce-${nonce}`,
    intervalMs: nonceMs.least + Math.floor(Math.random() * (nonceMs.most - nonceMs.least)),
    repeatForMs: 0,
    opaque: JSON.stringify({ nonce }),
  });
  if (written !== null) {
    nonces.push(written);
  }
}

// setTimer writes a timer, and returns the timer, or null if the answer was wrong.
function setTimer(request) {
  const id = write(request);
  const { session, revision, intervalMs } = request;
  return id === '' ? null : { session, revision, id, endsMs: Date.now() + intervalMs };
}

// random is 32 hex digits, so that runs against the same node do not collide.
function random() {
  return Array.from(new Uint8Array(crypto.randomBytes(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

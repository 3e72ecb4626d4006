/*
 * Leader/follower dispatcher, second form: the leader keeps the seat while it
 * runs handlers; one follower, the standby, sleeps with a time-out while a
 * leader is in a handler and takes the seat of a leader that has been in the
 * same handler since its last look.
 *
 * As in lf.pml every critical section is one atomic block; waiting in the
 * engine, sleeping on the own slot and running a handler are steps of their
 * own.  Time-outs are free choices: the standby may look at any moment.
 *
 * Three things are checked at once: the assertions (one leader, each operation
 * handled once), the watchdog (nothing can move: everything that can be
 * dispatched must have been), and acceptance cycles through the standby's
 * look (an infinite number of looks: a thread wakes periodically for ever, or
 * looks for ever at work that it does not do).
 *
 * Defaults are the final rules; each switch breaks one of them.
 */
#ifndef NT
#define NT 2            /* pool threads                                      */
#endif
#ifndef NP
#define NP 1            /* processors                                        */
#endif
#ifndef NOPS
#define NOPS 2          /* operations                                        */
#endif
#ifndef NEXT
#define NEXT 2          /* started from outside; k+NEXT by the handler of k  */
#endif
#ifndef NPOST
#define NPOST 0         /* results posted from outside (ids from NOPS on)    */
#endif
#ifndef LIMIT
#define LIMIT 2         /* started operations a processor may have           */
#endif
#ifndef NEVERMASK
#define NEVERMASK 0     /* operations that never complete                    */
#endif
#ifndef BLOCKMASK
#define BLOCKMASK 0     /* handlers that block until all others have run     */
#endif
#ifndef FOREVER
#define FOREVER 0       /* 1: ... that block for ever                        */
#endif
#ifndef DEDICATED
#define DEDICATED 255   /* number of the processor with its own thread       */
#endif
#ifndef DYNWAIT
#define DYNWAIT 1       /* 0: fixed wait set (select, poll, aio_suspend)     */
#endif
#ifndef LSTART
#define LSTART 0        /* 1: only the leader may start: others defer        */
#endif
#ifndef TMO
#define TMO 0           /* how many deadlines of handle_events() may pass    */
#endif
#ifndef ONESHOT
#define ONESHOT 0       /* 1: handle_events() returns after one handler      */
#endif
#ifndef LEAVE
#define LEAVE 0         /* 1: a thread that has returned may stay away       */
#endif
#ifndef NOLOOK
#define NOLOOK 0        /* 1: no time passes (to count wake-ups)             */
#endif
#ifndef CALM
#define CALM 0          /* 1: all threads sleep before the first start       */
#endif
#ifndef WAKEMAX
#define WAKEMAX 255     /* wake-ups of followers allowed in one run          */
#endif
/* -- the rules; 1 = final unless noted ---------------------------------- */
#ifndef STICKY
#define STICKY 1        /* interrupts are kept                               */
#endif
#ifndef ONEWAIT
#define ONEWAIT 1       /* last look at the queue and "leader waits": one step */
#endif
#ifndef DECIDE
#define DECIDE 1        /* the look and going to sleep for good: one step    */
#endif
#ifndef TAKE
#define TAKE 1          /* "same handler" and taking the seat: one step      */
#endif
#ifndef RETCHECK
#define RETCHECK 1      /* back from a handler: is the seat still mine?      */
#endif
#ifndef REARM
#define REARM 2         /* a standby is wanted 2: whenever a leader enters
                           a handler; 1: only after a wait that brought results;
                           0: only if it slept for good when the wait began  */
#endif
#ifndef ROLETAKE
#define ROLETAKE 1      /* the role is free when the standby takes a seat */
#endif
#ifndef ROLELEAVE
#define ROLELEAVE 1     /* ... when it leaves                                */
#endif
#ifndef ROLEWORK
#define ROLEWORK 1      /* ... when it is woken for work                     */
#endif
#ifndef ROLESLEEP
#define ROLESLEEP 2     /* a sleeper takes the role 2: if it is free;
                           1: if a leader is in a handler besides; 0: never  */
#endif
#ifndef ROLEFIRST
#define ROLEFIRST 1     /* ... before it helps a leader that is busy         */
#endif
#ifndef SEATOWN
#define SEATOWN 1       /* giving up the seat: only if it is still mine      */
#endif
#ifndef SHARED
#define SHARED 1        /* 0: the leader's batch is private                  */
#endif
#ifndef SEATLEAVE
#define SEATLEAVE 1     /* a leader that returns gives the seat up           */
#endif
#ifndef LOOKQ
#define LOOKQ 0         /* 1: the look sees queue and empty seats too (not needed) */
#endif
#ifndef C_HANDLER
#define C_HANDLER 1     /* look round before a handler                       */
#endif
#ifndef C_WAIT
#define C_WAIT 1        /* ... before waiting as leader                      */
#endif
#ifndef C_LEAVE
#define C_LEAVE 1       /* ... before returning                              */
#endif
#ifndef C_POST
#define C_POST 1        /* ... after a post; 2: any sleeper, else the leader,
                           at once; 0: nothing if a standby is armed     */
#endif
#ifndef SUPPRESS
#define SUPPRESS 1      /* no second wake-up while one is under way          */
#endif
#ifndef PREFER
#define PREFER 0        /* none sleeps for good: 0 the standby, 1 a
                           waiting leader is asked first                     */
#endif
#ifndef HYST
#define HYST 1          /* sleep for good only after a look without traffic  */
#endif
#ifndef HELP
#define HELP 0          /* 1: handlers may be thought to last, and then what is
                           queued is urgent, and an idle thread takes the seat
                           of a leader in a handler                          */
#endif

#define ALL   (NOPS + NPOST)
#define PROC(k) ((k) % NP)
#define NEVER(k) ((NEVERMASK >> (k)) & 1)
#define BLK(k) ((BLOCKMASK >> (k)) & 1)

#define IDLE 0
#define DEFERRED 1
#define STARTED 2
#define KDONE 3
#define QUEUED 4
#define RUNNING 5
#define DONE 6

#define VACANT 0        /* the seat                                          */
#define AWAKE 1         /* its holder is in the dispatcher                   */
#define WAIT 2          /* ... in the engine's wait                          */
#define HANDLER 3       /* ... in a handler, seat kept                       */

byte op[8];
byte nst[2];
byte ndf[2];
byte holder[2];         /* 0 none, else thread + 1                           */
byte seat[2];
byte hc[2];             /* counts handlers entered and changes of the seat   */
byte mark[2];           /* hc at the standby's last look                  */
byte inw[2];            /* threads in the engine's wait                      */
bool intr[2];
bool snap[8];
byte wst[4];            /* 0 awake, 1 asleep for good, 2 signalled, 3 asleep as standby */
byte under;             /* the standby: 0 none, else thread + 1           */
byte coming;            /* signalled, not yet back under the mutex           */
byte nwakes;
byte free_done;
byte free_goal;
byte tbudget = TMO;
#if HELP
bool lasts;             /* what the threads think of the handlers             */
#else
#define lasts 0
#endif
byte inpool = NT;
chan cq = [ALL] of { byte };
#if !SHARED
chan pq[NT] = [ALL] of { byte };
#define PRIV(t) len(pq[t])
#else
#define PRIV(t) 0
#endif

hidden byte hi, hj;

#define SH(q) ((q) < NP && (q) != DEDICATED)
#define SLEEPER (wst[0] == 1 || wst[1] == 1 || wst[2] == 1 || wst[3] == 1)
#define INH(q) (SH(q) && seat[q] == HANDLER)
#define BUSY(q) (SH(q) && (seat[q] == HANDLER || seat[q] == AWAKE))
#define ASKABLE(q) (SH(q) && seat[q] == WAIT && !intr[q])
#define ASKED(q) (SH(q) && seat[q] == WAIT && intr[q])
#define CANLEAD(q) (SH(q) && holder[q] == 0 && nst[q] + ndf[q] > 0)
#define UNLED (CANLEAD(0) || CANLEAD(1))
#define WANTED (INH(0) || INH(1))
#define NEED (UNLED || (len(cq) > 0 && !BUSY(0) && !BUSY(1)))
#define NOW (NEED || (lasts && len(cq) > 0))
#define FIRST (ROLEFIRST && mine == 0 && !late && !lasts && WANTED && under == 0 && !(NOW))
#define FREE (!SUPPRESS || coming == 0)
#define QFREE (len(cq) > 0 && FREE && (!SUPPRESS || !(ASKED(0) || ASKED(1))))

inline count_wake() {
  coming++;
#if WAKEMAX < 255
  nwakes++; assert(nwakes <= WAKEMAX)
#endif
}

inline wake_one() {
  if
  :: wst[0] == 1 -> wst[0] = 2
  :: wst[1] == 1 -> wst[1] = 2
  :: wst[2] == 1 -> wst[2] = 2
  :: wst[3] == 1 -> wst[3] = 2
  fi;
  count_wake()
}

inline wake_under() {
  if
  :: wst[under - 1] == 3 -> wst[under - 1] = 2; count_wake()
  :: else -> skip
  fi;
  if
  :: ROLEWORK -> under = 0
  :: else -> skip
  fi
}

inline interrupt(q) {
  if
  :: STICKY || inw[q] > 0 -> intr[q] = 1
  :: else -> skip
  fi
}

inline ask_leader() {
  if
  :: ASKABLE(0) -> interrupt(0)
#if NP > 1
  :: ASKABLE(1) -> interrupt(1)
#endif
  fi
}

/* the look round; now = what is urgent, want = a standby may be called for */
inline look_round(now, want) {
  if
  :: (now) && FREE && SLEEPER -> wake_one()
  :: (now) && QFREE && !(SLEEPER) && PREFER && (ASKABLE(0) || ASKABLE(1)) && !(UNLED)
     -> ask_leader()
  :: (now) && FREE && !(SLEEPER) && under != 0 &&
     !(PREFER && (ASKABLE(0) || ASKABLE(1)) && !(UNLED))
     -> wake_under()
  :: !(now) && (want) && WANTED && under == 0 && FREE && SLEEPER -> wake_one()
  :: QFREE && !(SLEEPER) && under == 0 && (ASKABLE(0) || ASKABLE(1)) -> ask_leader()
  :: else -> skip
  fi
}

#define cover(want) look_round(NOW, want)

inline start(k, me) {
  assert(op[k] == IDLE);
  if
  :: nst[PROC(k)] < LIMIT && (!LSTART || holder[PROC(k)] == me) -> op[k] = STARTED; nst[PROC(k)]++
  :: else -> op[k] = DEFERRED; ndf[PROC(k)]++
  fi;
  if
  :: (LSTART || !DYNWAIT) && seat[PROC(k)] == WAIT -> interrupt(PROC(k))
  :: else -> skip
  fi;
  look_round(NEED, 1)     /* what it completed at once is its own next step */
}

inline prepare(q) {
  hi = 0;
  do
  :: hi < NOPS ->
     if
     :: PROC(hi) == q && op[hi] == DEFERRED && nst[q] < LIMIT ->
        op[hi] = STARTED; ndf[q]--; nst[q]++
     :: else -> skip
     fi;
#if !DYNWAIT
     if
     :: PROC(hi) == q -> snap[hi] = (op[hi] == STARTED || op[hi] == KDONE)
     :: else -> skip
     fi;
#endif
     hi++
  :: else -> break
  od; hi = 0
}

#define RDY(k,q) ((k) < NOPS && PROC(k) == (q) && op[k] == KDONE && (DYNWAIT || snap[k]))
#define READY(q) (RDY(0,q) || RDY(1,q) || RDY(2,q) || RDY(3,q))

inline harvest(q, t) {
  hj = 0; got = 0;
  do
  :: hj < NOPS ->
     if
     :: RDY(hj, q) -> op[hj] = QUEUED; nst[q]--; got = 1;
#if !SHARED
        pq[t]!hj
#else
        cq!hj
#endif
     :: else -> skip
     fi;
     hj++
  :: else -> break
  od; hj = 0
}

inline sit_down() {
  seat[mine - 1] = WAIT;
#if REARM == 0
  idle = (under == 0);
#endif
  if
  :: C_WAIT -> cover(1)
  :: else -> skip
  fi
#if STICKY
  ; inw[mine - 1]++; assert(inw[mine - 1] == 1)
#endif
}

inline seize(p) {
  wst[t] = 0;
  if
  :: ROLETAKE -> under = 0
  :: else -> skip
  fi;
  holder[p] = t + 1; hc[p]++; seat[p] = AWAKE; mine = p + 1
}

#if REARM == 2
#define WANT 1
#elif REARM == 1
#define WANT got
#else
#define WANT idle
#endif

proctype Pool(byte t)
{
  byte i;
  byte mine;            /* 0 none, else the processor whose seat this thread last took + 1 */
  bool any, late, got;
#if REARM == 0
  bool idle;
#endif

enter:
  atomic { any = 0; late = 0; got = 0; mine = 0 };

step1:
  atomic {
    if
    :: wst[t] == 2 -> wst[t] = 0; coming--
    :: else -> skip
    fi;
    if
    :: mine > 0 && RETCHECK && holder[mine - 1] != t + 1 -> mine = 0
    :: else -> skip
    fi;
    if
    :: ONESHOT && any -> goto out
#if !SHARED
    :: !(ONESHOT && any) && len(pq[t]) > 0 ->
       pq[t]?i; goto take
#endif
    :: !(ONESHOT && any) && PRIV(t) == 0 && FIRST -> goto role
    :: !(ONESHOT && any) && PRIV(t) == 0 && len(cq) > 0 && !FIRST ->
       cq?i;
take:
       any = 1;
       assert(op[i] == QUEUED);
       op[i] = RUNNING;
       if
       :: mine > 0 -> seat[mine - 1] = HANDLER; hc[mine - 1]++
       :: else -> skip
       fi;
       if
       :: C_HANDLER -> cover(WANT)
       :: else -> skip
       fi;
       got = 0;
       goto dispatch
    :: !(ONESHOT && any) && PRIV(t) == 0 && len(cq) == 0 && late -> goto out
    :: else ->
       got = 0;
       if
       :: mine > 0 && nst[mine - 1] + ndf[mine - 1] == 0 ->
          holder[mine - 1] = 0; seat[mine - 1] = VACANT; hc[mine - 1]++; mine = 0
       :: else -> skip
       fi;
       if
       :: mine == 0 && CANLEAD(0) -> holder[0] = t + 1; hc[0]++; seat[0] = AWAKE; mine = 1
       :: mine == 0 && !CANLEAD(0) && CANLEAD(1)
          -> holder[1] = t + 1; hc[1]++; seat[1] = AWAKE; mine = 2
#if HELP
       :: mine == 0 && !(UNLED) && lasts && INH(0) && nst[0] + ndf[0] > 0
          -> holder[0] = t + 1; hc[0]++; seat[0] = AWAKE; mine = 1
       :: mine == 0 && !(UNLED) && lasts && INH(1) && nst[1] + ndf[1] > 0
          -> holder[1] = t + 1; hc[1]++; seat[1] = AWAKE; mine = 2
#endif
       :: else -> skip
       fi;
       if
       :: mine > 0 ->
          prepare(mine - 1);
#if ONEWAIT
          sit_down();
          goto lead
#else
          goto gap      /* the mutex is released between the look and the mark */
#endif
       :: else ->
          if
          :: under == 0 && (ROLESLEEP == 2 || (ROLESLEEP == 1 && WANTED)) ->
role:
             under = t + 1; wst[t] = 3; mark[0] = hc[0]; mark[1] = hc[1];
             goto armed
          :: else ->
             wst[t] = 1;
             goto follow
          fi
       fi
    fi
  }

gap:
#if !ONEWAIT
  atomic { sit_down() };
#endif
lead:
#if !STICKY
  atomic { inw[mine - 1]++; assert(inw[mine - 1] == 1) };
#endif
end_lead:
  if
  :: READY(mine - 1) || intr[mine - 1] -> skip
#if TMO
  :: atomic { tbudget > 0 -> tbudget--; late = 1 }
#endif
  fi;
  atomic {
    assert(holder[mine - 1] == t + 1 && seat[mine - 1] == WAIT);
    inw[mine - 1]--;
    intr[mine - 1] = 0;
    harvest(mine - 1, t);
    seat[mine - 1] = AWAKE;
    goto step1
  }

follow:
end_follow:
  if
  :: wst[t] == 2 -> goto step1
#if TMO
  :: atomic { wst[t] == 1 && tbudget > 0 -> tbudget--; late = 1; wst[t] = 0; goto out }
  :: atomic { wst[t] == 2 && tbudget > 0 -> tbudget--; late = 1; wst[t] = 0; coming--; goto out }
#endif
  fi;

armed:
end_armed:
  if
  :: wst[t] == 2 -> goto step1
#if !NOLOOK
  :: wst[t] == 3 ->     /* time is up; now for the mutex */
accept_look:
     atomic {
       if
       :: wst[t] == 2 -> goto step1
       :: wst[t] == 3 && LOOKQ && NOW -> under = 0; wst[t] = 0; goto step1
#if TAKE
       :: wst[t] == 3 && !(LOOKQ && NOW) && INH(0) && mark[0] == hc[0] -> seize(0); goto step1
       :: wst[t] == 3 && !(LOOKQ && NOW) && INH(1) && mark[1] == hc[1] -> seize(1); goto step1
#else
       :: wst[t] == 3 && !(LOOKQ && NOW) && INH(0) && mark[0] == hc[0] -> goto late_seize
#endif
       :: else ->
          if
          :: BUSY(0) || BUSY(1) || (HYST && (mark[0] != hc[0] || mark[1] != hc[1])) ->
             mark[0] = hc[0]; mark[1] = hc[1]; goto armed
          :: else ->
#if DECIDE
             under = 0; wst[t] = 1; goto follow
#else
             goto late_sleep
#endif
          fi
       fi
     }
#endif
#if TMO
  :: atomic { wst[t] >= 2 && tbudget > 0 -> tbudget--; late = 1;
     if
     :: wst[t] == 2 -> coming--
     :: wst[t] == 3 && ROLELEAVE -> under = 0
     :: else -> skip
     fi;
     wst[t] = 0; goto out }
#endif
  fi;

late_sleep:             /* DECIDE=0: acts on what it saw a step ago */
#if !DECIDE
  atomic {
    if
    :: wst[t] == 2 -> goto step1
    :: else -> under = 0; wst[t] = 1; goto follow
    fi
  };
#endif

late_seize:             /* TAKE=0: the same */
#if !TAKE
  atomic {
    if
    :: wst[t] == 2 -> coming--
    :: else -> skip
    fi;
    seize(0);
    goto step1
  };
#endif

dispatch:
end_block:
  if
  :: BLK(i) && !FOREVER -> (free_done == free_goal)
  :: BLK(i) && FOREVER -> end_ever: false
  :: else -> skip
  fi;
  atomic {
    assert(op[i] == RUNNING);
    op[i] = DONE;
    if
    :: !BLK(i) -> free_done++
    :: else -> skip
    fi;
#if HELP
    if
    :: lasts = 0
    :: lasts = 1
    fi;
#endif
    if
    :: i < NOPS && i + NEXT < NOPS -> start(i + NEXT, t + 1)
    :: else -> skip
    fi;
    i = 0;
    goto step1
  }

out:
  atomic {
    if
    :: mine > 0 && SEATLEAVE && (holder[mine - 1] == t + 1 || !SEATOWN)
       -> holder[mine - 1] = 0; seat[mine - 1] = VACANT; hc[mine - 1]++
    :: else -> skip
    fi;
    mine = 0; any = 0; late = 0; got = 0;
    if
    :: C_LEAVE -> cover(1)
    :: else -> skip
    fi
  };
  atomic {
    if
    :: LEAVE && inpool > 1 -> inpool--; goto gone
    :: goto enter
    fi
  };
gone:
  skip
}

#if DEDICATED < NP
proctype Dedicated()
{
  bool got;
  do
  :: atomic { prepare(DEDICATED) };
end_ded:
     (READY(DEDICATED) || intr[DEDICATED]);
     atomic { intr[DEDICATED] = 0; harvest(DEDICATED, 0); got = 0; cover(1) }
  od
}
#endif

proctype Kernel()
{
end_k:
  do
  :: !NEVER(0) && op[0] == STARTED -> op[0] = KDONE
#if NOPS > 1
  :: !NEVER(1) && op[1] == STARTED -> op[1] = KDONE
#endif
#if NOPS > 2
  :: !NEVER(2) && op[2] == STARTED -> op[2] = KDONE
#endif
#if NOPS > 3
  :: !NEVER(3) && op[3] == STARTED -> op[3] = KDONE
#endif
  od
}

proctype Starter()
{
  byte k = 0;
#if CALM
  (wst[0] && (NT < 2 || wst[1]) && (NT < 3 || wst[2]) && (NT < 4 || wst[3]));
#endif
  do
  :: k < NEXT -> atomic { start(k, 0); k++ }
  :: else -> break
  od
}

#if NPOST
proctype Poster()
{
  byte k = NOPS;
  do
  :: k < ALL ->
     atomic {
       op[k] = QUEUED; cq!k; k++;
#if C_POST == 1
       cover(1)
#elif C_POST == 2
       if
       :: SLEEPER -> wake_one()
       :: !(SLEEPER) && (ASKABLE(0) || ASKABLE(1)) -> ask_leader()
       :: else -> skip
       fi
#else
       if
       :: under == 0 -> cover(1)
       :: else -> skip
       fi
#endif
     }
  :: else -> break
  od
}
#endif

proctype Watchdog()
{
end_w:
  timeout -> assert(free_done == free_goal)
}

init {
  byte z = 0;
  atomic {
#if HELP
    if
    :: lasts = 0
    :: lasts = 1
    fi;
#endif
    do
    :: z < ALL ->
       if
       :: NEVER(z) || BLK(z) -> skip
       :: else -> free_goal++
       fi;
       z++
    :: else -> break
    od;
    z = 0;
    do
    :: z < NT -> run Pool(z); z++
    :: else -> break
    od;
#if DEDICATED < NP
    run Dedicated();
#endif
    run Kernel();
    run Starter();
#if NPOST
    run Poster();
#endif
    run Watchdog()
  }
}

#ifdef LIVE
ltl live { <> (free_goal > 0 && free_done == free_goal) }
#endif

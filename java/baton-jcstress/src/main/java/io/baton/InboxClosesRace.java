package io.baton;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.ZZ_Result;

/** A push into an inbox that closes: either it is refused, or the inbox stays open for it. */
@JCStressTest
@Outcome(id = "true, false", expect = Expect.ACCEPTABLE, desc = "the push came first")
@Outcome(id = "false, true", expect = Expect.ACCEPTABLE, desc = "the end came first")
@Outcome(expect = Expect.FORBIDDEN, desc = "a task is lost, or neither has won")
@State
public class InboxClosesRace {
  private final Inbox inbox = new Inbox();

  @Actor
  public void push(ZZ_Result result) {
    result.r1 = inbox.push(new NumberedTask('a', 1));
  }

  @Actor
  public void close(ZZ_Result result) {
    result.r2 = inbox.closeIfEmpty();
  }
}

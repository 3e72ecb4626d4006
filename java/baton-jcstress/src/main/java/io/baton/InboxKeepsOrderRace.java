package io.baton;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.L_Result;

/** A thread pushes while the lane takes: nothing is lost, and the order is kept. */
@JCStressTest
@Outcome(id = "a1 a2 a3", expect = Expect.ACCEPTABLE, desc = "all of them, in order")
@Outcome(expect = Expect.FORBIDDEN, desc = "one is lost, comes twice, or overtakes")
@State
public class InboxKeepsOrderRace {
  private final Inbox inbox = new Inbox();
  private final TaskQueue<Task> queue = new TaskQueue<>();

  @Actor
  public void push() {
    inbox.push(new NumberedTask('a', 1));
    inbox.push(new NumberedTask('a', 2));
    inbox.push(new NumberedTask('a', 3));
  }

  @Actor
  public void lane() {
    inbox.moveTo(queue, queue);
    inbox.moveTo(queue, queue);
  }

  @Arbiter
  public void rest(L_Result result) {
    inbox.moveTo(queue, queue);
    result.r1 = NumberedTask.told(queue);
  }
}

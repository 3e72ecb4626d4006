package io.baton;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.L_Result;

/** Two threads push: nothing is lost, and each thread's order is kept. */
@JCStressTest
@Outcome(
    id = {"a1 a2 b1 b2", "a1 b1 a2 b2", "a1 b1 b2 a2", "b1 a1 a2 b2", "b1 a1 b2 a2", "b1 b2 a1 a2"},
    expect = Expect.ACCEPTABLE,
    desc = "all of them, in order")
@Outcome(expect = Expect.FORBIDDEN, desc = "one is lost, comes twice, or overtakes")
@State
public class InboxMergesRace {
  private final Inbox inbox = new Inbox();
  private final TaskQueue<Task> queue = new TaskQueue<>();

  @Actor
  public void first() {
    inbox.push(new NumberedTask('a', 1));
    inbox.push(new NumberedTask('a', 2));
  }

  @Actor
  public void second() {
    inbox.push(new NumberedTask('b', 1));
    inbox.push(new NumberedTask('b', 2));
  }

  @Arbiter
  public void rest(L_Result result) {
    inbox.moveTo(queue, queue);
    result.r1 = NumberedTask.told(queue);
  }
}

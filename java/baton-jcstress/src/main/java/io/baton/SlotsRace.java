package io.baton;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;

/** Operation objects of a channel: a thread takes while the lane gives back. */
@JCStressTest
@Outcome(id = "1, 2, 3", expect = Expect.ACCEPTABLE, desc = "three objects, each in one hand")
@Outcome(id = "1, 2, 0", expect = Expect.FORBIDDEN, desc = "what the lane gave back is lost")
@Outcome(expect = Expect.FORBIDDEN, desc = "two have one, or there is none")
@State
public class SlotsRace {
  private final OpCache<OpWrite> cache = new OpCache<>();
  private final OpWrite[] all = {new OpWrite(null), new OpWrite(null), new OpWrite(null)};

  /** Two are free; the lane has the third. */
  public SlotsRace() {
    for (OpWrite one : all) {
      one.startedOutside = true;
    }
    cache.put(all[0]);
    cache.put(all[1]);
  }

  private int numberOf(OpWrite one) {
    for (int i = 0; i < all.length; i++) {
      if (all[i] == one) {
        return i + 1;
      }
    }
    return 0;
  }

  @Actor
  public void other(III_Result result) {
    result.r1 = numberOf(cache.take(false));
    result.r2 = numberOf(cache.take(false));
  }

  @Actor
  public void lane() {
    cache.put(all[2]);
  }

  @Arbiter
  public void rest(III_Result result) {
    result.r3 = numberOf(cache.take(false));
  }
}

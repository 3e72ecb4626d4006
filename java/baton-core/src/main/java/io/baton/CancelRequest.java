package io.baton;

/** A request of another thread to end an operation early. */
final class CancelRequest extends Task {
  private final ChannelCore core;
  private final long activation;
  private boolean behindAccepts;

  CancelRequest(ChannelCore core, long activation) {
    this.core = core;
    this.activation = activation;
  }

  @Override
  void run() {
    if (!core.cancelHere(activation) && core.isListener() && !behindAccepts) {
      // Accepts have a queue of their own, and the one that is meant may wait there to be begun.
      behindAccepts = true;
      core.lane.accepts.add(this);
    }
  }
}

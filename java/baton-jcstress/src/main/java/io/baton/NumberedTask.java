package io.baton;

/** A task of one thread: its letter and its number there. */
final class NumberedTask extends Task {
  final char thread;
  final int number;

  NumberedTask(char thread, int number) {
    this.thread = thread;
    this.number = number;
  }

  @Override
  void run() {
    throw new AssertionError("it is only moved");
  }

  /** Empties the queue into letters and numbers, such as "a1 b1 a2". */
  static String told(TaskQueue<Task> queue) {
    StringBuilder text = new StringBuilder();
    for (Task one = queue.poll(); one != null; one = queue.poll()) {
      NumberedTask task = (NumberedTask) one;
      text.append(text.isEmpty() ? "" : " ").append(task.thread).append(task.number);
    }
    return text.toString();
  }
}

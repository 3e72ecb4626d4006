package io.baton;

import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The threads that may block in files. They come when needed and go after a while; what they have
 * to do is bounded by the limits of the channels.
 */
final class FileWorkers {
  private final ThreadPoolExecutor executor;

  FileWorkers(Settings settings) {
    executor =
        new ThreadPoolExecutor(
            settings.fileThreads(),
            settings.fileThreads(),
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            action -> {
              Thread thread = new Thread(action, "baton-file");
              thread.setDaemon(true);
              return thread;
            });
    executor.allowCoreThreadTimeOut(true);
  }

  Executor executor() {
    return executor;
  }

  void end() {
    executor.shutdown();
  }
}

package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.channels.SelectableChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * J-01: the echo server of the article compiles with no change but imports and the corrections of
 * its own typing errors, and echoes.
 */
class ArticleEchoTest {
  private static final String IMPORTS =
      """
      import io.baton.AsynchChannel;
      import io.baton.AsynchHandler;
      import io.baton.Demultiplexor;
      import io.baton.OpRead;
      import io.baton.OpWrite;
      import java.nio.ByteBuffer;
      import java.nio.channels.SelectableChannel;
      """;

  /** Error of the text, correction. Each occurs once. */
  private static final List<List<String>> CORRECTIONS =
      List.of(
          List.of(
              "Peer closed \" + opRead.getBytesCompleted();",
              "Peer closed \" + opRead.getBytesCompleted());"),
          // The buffer of start() is declared nowhere.
          List.of(
              "AsynchChannel achannel = null;",
              "AsynchChannel achannel = null; ByteBuffer buffer = ByteBuffer.allocate(512);"),
          // The article leaves this body to the reader.
          List.of(
              "// logically similar to onReadCompleted ...",
              """
              if (opWrite.getError() != null) {
                achannel.close();
                return;
              }
              opWrite.getBuffer().clear();
              achannel.read(opWrite.getBuffer());
              """));

  @Test
  void theEchoServerOfTheArticleCompilesAndEchoes(@TempDir Path folder) throws Exception {
    String source = IMPORTS + corrected(article());
    Path classes = compile(source, folder);
    try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()});
        Demultiplexor demultiplexor = Demultiplexor.builder().threads(1).open()) {
      Class<?> protocol = loader.loadClass("EchoServerProtocol");
      Constructor<?> constructor =
          protocol.getDeclaredConstructor(Demultiplexor.class, SelectableChannel.class);
      constructor.setAccessible(true);
      Method start = protocol.getMethod("start");
      start.setAccessible(true);
      var listener =
          demultiplexor.listen(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
              new AsynchHandler() {
                @Override
                public void onAcceptCompleted(OpAccept opAccept) throws Exception {
                  if (opAccept.getError() != null) {
                    return;
                  }
                  start.invoke(constructor.newInstance(demultiplexor, opAccept.getChannel()));
                  opAccept.getAsynchChannel().accept();
                }
              });
      listener.accept();
      for (int i = 0; i < 3; i++) {
        echoOnce((InetSocketAddress) listener.getLocalAddress());
      }
    }
  }

  private static void echoOnce(InetSocketAddress server) throws IOException {
    try (Socket client = new Socket(server.getAddress(), server.getPort())) {
      client.setSoTimeout((int) Patience.PATIENCE.toMillis());
      for (String word : List.of("a proactor", "in Java", "after twenty years")) {
        byte[] message = word.getBytes(StandardCharsets.UTF_8);
        client.getOutputStream().write(message);
        assertArrayEquals(message, client.getInputStream().readNBytes(message.length));
      }
      client.shutdownOutput();
      assertEquals(-1, client.getInputStream().read());
    }
  }

  private static String article() throws IOException {
    try (InputStream text =
        ArticleEchoTest.class.getResourceAsStream("/article/EchoServerProtocol.article")) {
      return new String(text.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static String corrected(String text) {
    String result = text;
    for (List<String> correction : CORRECTIONS) {
      assertEquals(
          result.indexOf(correction.get(0)), result.lastIndexOf(correction.get(0)), "occurs once");
      assertTrue(result.contains(correction.get(0)), correction.get(0));
      result = result.replace(correction.get(0), correction.get(1));
    }
    return result;
  }

  private static Path compile(String source, Path folder) {
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    DiagnosticCollector<JavaFileObject> complaints = new DiagnosticCollector<>();
    JavaFileObject file =
        new SimpleJavaFileObject(
            URI.create("string:///EchoServerProtocol.java"), JavaFileObject.Kind.SOURCE) {
          @Override
          public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return source;
          }
        };
    List<String> options =
        List.of("-d", folder.toString(), "-cp", System.getProperty("java.class.path"));
    boolean compiled =
        compiler.getTask(null, null, complaints, options, null, List.of(file)).call();
    assertTrue(compiled, () -> complaints.getDiagnostics().toString());
    assertEquals(List.of(), complaints.getDiagnostics());
    return folder;
  }
}

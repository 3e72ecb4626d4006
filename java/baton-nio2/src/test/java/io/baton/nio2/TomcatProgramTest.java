package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.baton.test.Patience;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http2.Http2Protocol;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tomcat's NIO2 connector: bodies come and go by HTTP/1.1 and HTTP/2. */
class TomcatProgramTest extends ProgramTest {
  private static final Logger QUIET = Logger.getLogger("org.apache");

  @TempDir Path folder;
  private Tomcat tomcat;
  private Connector connector;

  /** Returns the request's body, or the requested number of bytes. */
  private static final class EchoServlet extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      request.getInputStream().transferTo(response.getOutputStream());
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      int bytes = Integer.parseInt(request.getQueryString());
      response.getOutputStream().write(Nio2Contract.pattern(bytes));
    }
  }

  @BeforeEach
  void start() throws Exception {
    QUIET.setLevel(Level.WARNING);
    tomcat = new Tomcat();
    tomcat.setBaseDir(folder.toString());
    connector = new Connector("org.apache.coyote.http11.Http11Nio2Protocol");
    connector.setProperty("address", "127.0.0.1");
    connector.setPort(0);
    connector.addUpgradeProtocol(new Http2Protocol());
    tomcat.setConnector(connector);
    Context context = tomcat.addContext("", folder.toString());
    Tomcat.addServlet(context, "echo", new EchoServlet());
    context.addServletMappingDecoded("/echo", "echo");
    tomcat.start();
  }

  @AfterEach
  void stop() throws Exception {
    tomcat.stop();
    tomcat.destroy();
  }

  @Test
  void bodiesComeBackByHttp1() {
    HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    send20(client, bytes -> request("").POST(publisher(bytes)));
  }

  @Test
  void bodiesComeByHttp2() {
    HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
    // The first request changes to HTTP/2.
    receive(send(client, request("1").GET()), client, 1);
    send20(client, bytes -> request(Integer.toString(bytes)).GET());
  }

  /** All at the same time. */
  private void send20(HttpClient client, IntFunction<HttpRequest.Builder> requests) {
    List<CompletableFuture<HttpResponse<byte[]>>> responses = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      responses.add(send(client, requests.apply(100_000 * i)));
    }
    for (int i = 0; i < responses.size(); i++) {
      receive(responses.get(i), client, 100_000 * i);
    }
  }

  private HttpRequest.Builder request(String query) {
    return HttpRequest.newBuilder(
        URI.create("http://127.0.0.1:" + connector.getLocalPort() + "/echo?" + query));
  }

  private static HttpRequest.BodyPublisher publisher(int bytes) {
    return HttpRequest.BodyPublishers.ofByteArray(Nio2Contract.pattern(bytes));
  }

  private static CompletableFuture<HttpResponse<byte[]>> send(
      HttpClient client, HttpRequest.Builder request) {
    return client.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray());
  }

  private static void receive(
      CompletableFuture<HttpResponse<byte[]>> coming, HttpClient client, int bytes) {
    HttpResponse<byte[]> response = Patience.await(coming, "the response of " + bytes + " bytes");
    assertEquals(200, response.statusCode());
    assertEquals(client.version(), response.version());
    assertArrayEquals(Nio2Contract.pattern(bytes), response.body());
  }
}

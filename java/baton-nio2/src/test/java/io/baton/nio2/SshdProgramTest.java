package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.baton.test.Patience;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.sshd.client.SshClient;
import org.apache.sshd.client.keyverifier.AcceptAllServerKeyVerifier;
import org.apache.sshd.client.session.ClientSession;
import org.apache.sshd.common.file.virtualfs.VirtualFileSystemFactory;
import org.apache.sshd.common.io.nio2.Nio2ServiceFactoryFactory;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.auth.password.AcceptAllPasswordAuthenticator;
import org.apache.sshd.server.keyprovider.SimpleGeneratorHostKeyProvider;
import org.apache.sshd.sftp.client.SftpClient;
import org.apache.sshd.sftp.client.SftpClientFactory;
import org.apache.sshd.sftp.server.SftpSubsystemFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Apache MINA SSHD on its NIO.2 transport, both ends: a file goes up and down by SFTP. */
class SshdProgramTest extends ProgramTest {
  @TempDir Path folder;

  @Test
  void aFileGoesUpAndDownToTheByte() throws Exception {
    byte[] data = Nio2Contract.pattern(4_000_000);
    try (SshServer server = server();
        SshClient client = SshClient.setUpDefaultClient()) {
      server.start();
      client.setIoServiceFactoryFactory(new Nio2ServiceFactoryFactory());
      client.setServerKeyVerifier(AcceptAllServerKeyVerifier.INSTANCE);
      client.start();
      try (ClientSession session =
          client
              .connect("user", "127.0.0.1", server.getPort())
              .verify(Patience.PATIENCE)
              .getSession()) {
        session.addPasswordIdentity("any");
        session.auth().verify(Patience.PATIENCE);
        transfer(session, data);
      }
    }
  }

  private SshServer server() {
    SshServer server = SshServer.setUpDefaultServer();
    server.setIoServiceFactoryFactory(new Nio2ServiceFactoryFactory());
    server.setHost("127.0.0.1");
    SimpleGeneratorHostKeyProvider keys = new SimpleGeneratorHostKeyProvider();
    keys.setAlgorithm("EC");
    keys.setKeySize(256);
    server.setKeyPairProvider(keys);
    server.setPasswordAuthenticator(AcceptAllPasswordAuthenticator.INSTANCE);
    server.setSubsystemFactories(List.of(new SftpSubsystemFactory()));
    server.setFileSystemFactory(new VirtualFileSystemFactory(folder));
    return server;
  }

  private void transfer(ClientSession session, byte[] data) throws Exception {
    try (SftpClient files = SftpClientFactory.instance().createSftpClient(session)) {
      try (OutputStream up = files.write("/file")) {
        up.write(data);
      }
      assertArrayEquals(data, Files.readAllBytes(folder.resolve("file")));
      assertEquals(data.length, files.stat("/file").getSize());
      try (InputStream down = files.read("/file")) {
        assertArrayEquals(data, down.readAllBytes());
      }
    }
  }
}

package io.statefulspark.storage;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.apache.hadoop.conf.Configuration;

/**
 * Authorities that this JVM trusts beside its own: those of a private S3 server, from a file in PEM.
 *
 * <p>Every client of the AWS SDK, also the asynchronous ones, asks the default trust store when it is made. So the store is
 * replaced, before the first client, by one with the certificates of the old one and those of the file.
 */
final class TrustedAuthorities {
  /** Setting with the path of the file. */
  static final String FILE = "statefulspark.s3.ca";

  private static final String STORE = "javax.net.ssl.trustStore";
  private static final String PASSWORD = "public";
  private static String trusted;

  private TrustedAuthorities() {}

  /** Trusts the authorities of the file that the settings name, if they name one. */
  static synchronized void trust(Configuration conf) throws IOException {
    String file = conf.get(FILE);
    if (file == null || file.equals(trusted)) {
      return;
    }
    try {
      Path made = Files.createTempFile("statefulspark-trust-", ".p12");
      made.toFile().deleteOnExit();
      try (OutputStream out = Files.newOutputStream(made)) {
        withAuthorities(Path.of(file)).store(out, PASSWORD.toCharArray());
      }
      System.setProperty(STORE, made.toString());
      System.setProperty(STORE + "Password", PASSWORD);
      System.setProperty(STORE + "Type", "PKCS12");
    } catch (GeneralSecurityException e) {
      throw new IOException("The authority of the S3 server in " + file + " cannot be trusted: " + e.getMessage(), e);
    }
    trusted = file;
  }

  private static KeyStore withAuthorities(Path file) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    TrustManagerFactory own = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    own.init((KeyStore) null);
    int number = 0;
    for (TrustManager manager : own.getTrustManagers()) {
      if (manager instanceof X509TrustManager) {
        for (X509Certificate issuer : ((X509TrustManager) manager).getAcceptedIssuers()) {
          store.setCertificateEntry("authority-" + number++, issuer);
        }
      }
    }
    try (InputStream in = Files.newInputStream(file)) {
      for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("authority-" + number++, authority);
      }
    }
    return store;
  }
}

package io.statefulspark.storage;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Locale;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.SdkHttpRequest;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.UploadPartRequest;

/**
 * Sends Content-MD5 with each upload. A bucket with Object Lock refuses uploads without a checksum, and every store that
 * speaks S3 knows this one. The checksums that the SDK sends itself are trailers, which older stores refuse.
 *
 * <p>An upload that has a checksum already, for example by {@code fs.s3a.create.checksum.algorithm}, stays as it is.
 */
public final class ContentMd5Interceptor implements ExecutionInterceptor {
  private static final String CONTENT_MD5 = "Content-MD5";
  private static final int BUFFER_BYTES = 64 * 1024;

  /** Hadoop creates the interceptor by its class name. */
  public ContentMd5Interceptor() {}

  @Override
  public SdkHttpRequest modifyHttpRequest(Context.ModifyHttpRequest context, ExecutionAttributes attributes) {
    SdkHttpRequest request = context.httpRequest();
    boolean uploads = context.request() instanceof PutObjectRequest || context.request() instanceof UploadPartRequest;
    if (!uploads || hasChecksum(request)) {
      return request;
    }
    return context
        .requestBody()
        .map(body -> request.toBuilder().putHeader(CONTENT_MD5, md5(body)).build())
        .orElse(request);
  }

  private static boolean hasChecksum(SdkHttpRequest request) {
    return request.headers().keySet().stream()
        .map(name -> name.toLowerCase(Locale.ROOT))
        .anyMatch(name -> name.equals("content-md5") || name.startsWith("x-amz-checksum-") || name.equals("x-amz-trailer"));
  }

  private static String md5(RequestBody body) {
    try (InputStream content = body.contentStreamProvider().newStream()) {
      MessageDigest digest = MessageDigest.getInstance("MD5");
      byte[] buffer = new byte[BUFFER_BYTES];
      for (int read = content.read(buffer); read >= 0; read = content.read(buffer)) {
        digest.update(buffer, 0, read);
      }
      return Base64.getEncoder().encodeToString(digest.digest());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}

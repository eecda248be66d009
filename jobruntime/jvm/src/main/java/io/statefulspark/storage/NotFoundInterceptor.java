package io.statefulspark.storage;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.http.SdkHttpResponse;

/**
 * Keeps a 404 that the object store did not give from being taken for the absence of an object.
 *
 * <p>A proxy or an ingress that has lost the store behind it answers 404 with a page of its own. Hadoop's S3A takes each 404
 * for absence: a file of state would count as damaged, a folder as empty, and a newer driver's epoch as not claimed. Such an
 * answer becomes a 502 here, which clients try again and then report as a failure.
 *
 * <p>S3 gives each answer an id. A 404 without one is believed only from a server that has never sent a 404 with an id, and
 * only if it is not a page for people, since S3's errors are XML and not every server that speaks S3 sends ids.
 */
public final class NotFoundInterceptor implements ExecutionInterceptor {
  private static final String REQUEST_ID = "x-amz-request-id";
  private static final int NOT_FOUND = 404;
  private static final int BAD_GATEWAY = 502;
  private static final String SENTENCE =
      "Something between the client and the object store answered 404; check the proxy or ingress before it";
  private static final byte[] BODY =
      ("<Error><Code>BadGateway</Code><Message>" + SENTENCE + "</Message></Error>").getBytes(StandardCharsets.UTF_8);
  private static final Set<String> SERVERS_WITH_IDS = ConcurrentHashMap.newKeySet();

  /** Hadoop creates the interceptor by its class name. */
  public NotFoundInterceptor() {}

  @Override
  public SdkHttpResponse modifyHttpResponse(Context.ModifyHttpResponse context, ExecutionAttributes attributes) {
    if (!isDoubted(context)) {
      return context.httpResponse();
    }
    SdkHttpResponse.Builder failure = context.httpResponse().toBuilder().statusCode(BAD_GATEWAY).statusText(SENTENCE);
    if (context.responseBody().isPresent()) {
      failure.putHeader("Content-Length", Integer.toString(BODY.length));
    }
    return failure.build();
  }

  /** Puts the sentence where clients look for what an answer means; that of a HEAD has it in its status alone. */
  @Override
  public Optional<InputStream> modifyHttpResponseContent(
      Context.ModifyHttpResponse context, ExecutionAttributes attributes) {
    // The SDK gives the answer as it came to both methods.
    return isDoubted(context) ? context.responseBody().map(page -> new ByteArrayInputStream(BODY)) : context.responseBody();
  }

  private static boolean isDoubted(Context.ModifyHttpResponse context) {
    SdkHttpResponse answer = context.httpResponse();
    String server = context.httpRequest().host() + ":" + context.httpRequest().port();
    return answer.statusCode() == NOT_FOUND && !isFromStore(answer, server);
  }

  private static boolean isFromStore(SdkHttpResponse answer, String server) {
    if (answer.firstMatchingHeader(REQUEST_ID).filter(id -> !id.isEmpty()).isPresent()) {
      SERVERS_WITH_IDS.add(server);
      return true;
    }
    return !SERVERS_WITH_IDS.contains(server) && !isPage(answer);
  }

  private static boolean isPage(SdkHttpResponse answer) {
    String type = answer.firstMatchingHeader("Content-Type").orElse("").toLowerCase(Locale.ROOT);
    return type.startsWith("text/") && !type.startsWith("text/xml");
  }
}

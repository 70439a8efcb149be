import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/** Makes calls with one client of the JDK: METHOD URL BODY, and so on. Prints each status, and each line of a body. */
public class Call {
    public static void main(String[] words) throws Exception {
        HttpClient client = HttpClient.newHttpClient(); // asks for HTTP/2 with its first request
        for (int at = 0; at + 2 < words.length; at += 3) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(words[at + 1]))
                    .header("x-goog-api-key", "any")
                    .header("content-type", "application/json")
                    .method(words[at], BodyPublishers.ofString(words[at + 2]))
                    .build();
            var answer = client.send(request, BodyHandlers.ofLines());
            System.out.println(answer.statusCode() + " " + answer.version());
            answer.body().forEach(System.out::println);
        }
    }
}

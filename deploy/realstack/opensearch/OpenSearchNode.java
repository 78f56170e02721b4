import java.util.ArrayList;
import java.util.List;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * One OpenSearch node: java OpenSearchNode PORT DIR [key=value ...], settings of
 * opensearch.yml. The runner's own main hides exceptions, knows no port above
 * 9299 and leaves out the ingest role.
 */
public final class OpenSearchNode {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        OpenSearchRunner node = new OpenSearchRunner();
        node.setMaxHttpPort(-1); // exactly our port, or none
        node.onBuild((number, settings) -> {
            settings.put("network.host", "127.0.0.1");
            settings.put("discovery.type", "single-node");
            settings.put("transport.port", port + 100);
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
            settings.putList("node.roles", "cluster_manager", "data", "ingest");
            for (int i = 2; i < args.length; i++) {
                int eq = args[i].indexOf('=');
                settings.put(args[i].substring(0, eq), args[i].substring(eq + 1));
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        List<String> run = new ArrayList<>(List.of("-basePath", args[1] + "/node", "-clusterName", "realstack"));
        // The runner counts its nodes from one and adds that to the port.
        run.addAll(List.of("-numOfNode", "1", "-baseHttpPort", String.valueOf(port - 1)));
        try {
            node.build(run.toArray(new String[0]));
        } catch (Throwable t) {
            t.printStackTrace();
            System.exit(1);
        }
        Thread.currentThread().join();
    }
}

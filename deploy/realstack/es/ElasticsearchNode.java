import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.mapper.MapperExtrasPlugin;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.reindex.ReindexPlugin;
import org.elasticsearch.transport.Netty4Plugin;

/**
 * One Elasticsearch 7.17 node: java ElasticsearchNode PORT DIR [key=value ...],
 * settings of elasticsearch.yml. For tests only: its licence is not ours to give on.
 */
public final class ElasticsearchNode extends Node {
    private ElasticsearchNode(Settings settings, Path config, Collection<Class<? extends Plugin>> plugins) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), config, () -> "realstack"), plugins, false);
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        Path home = Path.of(args[1]);
        Settings.Builder settings = Settings.builder()
            .put("path.home", home.toString())
            .put("path.data", home.resolve("data").toString())
            .put("path.logs", home.resolve("logs").toString())
            .put("cluster.name", "realstack")
            .put("node.name", "realstack")
            .put("network.host", "127.0.0.1")
            .put("http.port", port)
            .put("transport.port", port + 100)
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int i = 2; i < args.length; i++) {
            int eq = args[i].indexOf('=');
            settings.put(args[i].substring(0, eq), args[i].substring(eq + 1));
        }
        try {
            Node node = new ElasticsearchNode(settings.build(), home.resolve("config"),
                List.of(Netty4Plugin.class, MapperExtrasPlugin.class, ReindexPlugin.class));
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    node.close();
                } catch (Exception e) {
                    e.printStackTrace();
                }
            }));
            node.start();
        } catch (Throwable t) {
            t.printStackTrace();
            System.exit(1);
        }
        Thread.currentThread().join();
    }
}

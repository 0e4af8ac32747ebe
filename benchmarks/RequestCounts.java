import com.sun.tools.attach.VirtualMachine;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints how many requests of each kind brokers have answered since they started, one "kind count" per line, as sums over their processes. */
public class RequestCounts {
    public static void main(String[] pids) throws Exception {
        Map<String, Long> counts = new TreeMap<>();
        for (String pid : pids) {
            VirtualMachine broker = VirtualMachine.attach(pid);
            String address = broker.startLocalManagementAgent();
            broker.detach();
            try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
                MBeanServerConnection beans = connector.getMBeanServerConnection();
                var wanted = new ObjectName("kafka.network:type=RequestMetrics,name=RequestsPerSec,*");
                for (ObjectName name : beans.queryNames(wanted, null)) {
                    counts.merge(name.getKeyProperty("request"), (Long) beans.getAttribute(name, "Count"), Long::sum);
                }
            }
        }
        counts.forEach((kind, count) -> System.out.println(kind + " " + count));
    }
}

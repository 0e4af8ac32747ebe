import java.io.BufferedReader;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/**
 * Runs the planner of kafka-reassign-partitions --generate on a cluster that is given as text, without any broker.
 *
 * <p>java -cp 'jars/*' KafkaPlanner.java CLUSTER.tsv OUT.json. Lines of the cluster: "broker ID RACK" for brokers that
 * may hold replicas, "topic PARTITION R1,R2,…" for partitions, separated by tabs; "#" begins a broker line.
 */
public final class KafkaPlanner {
    public static void main(String[] args) throws Exception {
        List<UsableBroker> brokers = new ArrayList<>();
        Map<TopicPartition, List<Integer>> current = new HashMap<>();
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] fields = line.split("\t");
                if (fields[0].equals("#")) {
                    brokers.add(new UsableBroker(Integer.parseInt(fields[1]), Optional.of(fields[2]), false));
                } else {
                    List<Integer> replicas = new ArrayList<>();
                    for (String id : fields[2].split(",")) replicas.add(Integer.valueOf(id));
                    current.put(new TopicPartition(fields[0], Integer.parseInt(fields[1])), replicas);
                }
            }
        }
        // The step between reading the cluster and printing, private in Kafka 4.
        Method plan = ReassignPartitionsCommand.class.getDeclaredMethod("calculateAssignment", Map.class, List.class);
        plan.setAccessible(true);
        @SuppressWarnings("unchecked")
        Map<TopicPartition, List<Integer>> target = (Map<TopicPartition, List<Integer>>) plan.invoke(null, current, brokers);
        target.entrySet().removeIf(entry -> entry.getValue().equals(current.get(entry.getKey())));
        Files.writeString(Path.of(args[1]), ReassignPartitionsCommand.formatAsReassignmentJson(target, Map.of()));
    }
}

package broker

import "fmt"

// clusterID is any UUID, in Kafka's form.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qg"

// javaArguments are for few cores and little memory: a fast start matters more than code that
// is well compiled after minutes. Only a lasting process is compiled well. Java may leave
// files in dir when java is killed.
func javaArguments(dir, classpath string, lasting bool) []string {
	level := "1"
	if lasting {
		level = "4" // of compiling: all
	}
	return []string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=" + level, "-XX:-UsePerfData",
		"-Djava.io.tmpdir=" + dir, "-XX:ErrorFile=" + dir + "/java-%p.log",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", classpath,
	}
}

// properties are the settings of a cluster of a single broker. The broker is its own
// controller, and has a further listener if secure isn't nil.
//
// The controller takes a killed broker for alive until the broker's session is over, and
// refuses the restarted broker meanwhile: with the default a restart would take 9 s more.
// A stopped broker, or a broker on a busy machine, may lose the short session. The next
// heartbeat brings the broker back.
func properties(port, controllerPort int, data string, secure *Secure) string {
	addr, more := "", ""
	if secure != nil {
		addr, more = ",SECURE://"+secure.Addr, secure.properties()
	}
	return fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d%[4]s
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d%[4]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=%[3]s
auto.create.topics.enable=false
broker.heartbeat.interval.ms=250
broker.session.timeout.ms=2000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.network.threads=2
num.io.threads=4
background.threads=2
group.coordinator.threads=1
log.cleaner.dedupe.buffer.size=2097152
%[5]s`, port, controllerPort, data, addr, more)
}

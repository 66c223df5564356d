package chart_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// equal compares what is with what should be.
func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func readValues(t *testing.T, path string) (values map[string]any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(readFile(t, path)), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestWrongValuesAreRefused: helm refuses values that make no release that works, and says why.
func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"redis.existingSecret=":                        "redis.existingSecret is empty: name a Secret whose key CHRONOS_REDIS has the shards",
		"image.repository=":                            "image.repository is empty",
		"replicaCount=3":                               "additional properties 'replicaCount' not allowed",
		"redis.url=redis://10.0.0.1:6379":              "at '/redis': additional properties 'url' not allowed",
		"replicas=0":                                   "at '/replicas': minimum: got 0, want 1",
		"config.CHRONOS_SLOT=1":                        "at '/config': additional properties 'CHRONOS_SLOT' not allowed",
		"config.CHRONOS_REDIS=redis://10.0.0.1:6379":   "at '/config': additional properties 'CHRONOS_REDIS' not allowed",
		"config.CHRONOS_WEBHOOK_SECRETS=whsec_AAAA":    "at '/config': additional properties 'CHRONOS_WEBHOOK_SECRETS' not allowed",
		"config.CHRONOS_ADMIN_LISTEN=:80":              "at '/config': additional properties 'CHRONOS_ADMIN_LISTEN' not allowed",
		"podLabels.app\\.kubernetes\\.io/name=another": "at '/podLabels/app.kubernetes.io~1name': false schema",
		"spread=Always":                                "at '/spread'",
		"stopDelay=0":                                  "at '/stopDelay': minimum: got 0, want 1",
		"tls.clientAuthorities=clients":                "tls.clientAuthorities needs tls.existingSecret",
		"serviceMonitor.enabled=true":                  "networkPolicy.adminFrom is empty",
		"serviceMonitor.enabled=true,networkPolicy.enabled=false,tokens.existingSecret=tokens": "serviceMonitor.tokenSecret is empty",
		"serviceMonitor.enabled=true,networkPolicy.enabled=false,tls.existingSecret=tls":       "serviceMonitor.tlsConfig is empty",
		"prometheusRule.documents=example.com":                                                 "at '/prometheusRule/documents'",
	} {
		out, errs, err := template(t, least, "--set", set)
		if err == nil || !strings.Contains(errs, want) {
			t.Errorf("--set %s: %v\n%s%s\nwant an error with %q", set, err, out, errs, want)
		}
	}
}

// TestLint: helm finds nothing to complain about.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, everything} {
		if out, errs, err := runHelm(t, "lint", "--strict", chart, "--values", values); err != nil || !strings.Contains(out, "1 chart(s) linted, 0 chart(s) failed") {
			t.Errorf("%s: %v\n%s%s", values, err, out, errs)
		}
	}
}

// TestSchemaKnowsAllVariables: each variable of a node is either set by the chart, or allowed in config, or has no use in a
// pod; and the chart knows no other variables.
func TestSchemaKnowsAllVariables(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Config struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(chart, "values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	// A pod has no data that outlives the pod, and no authorities that are for callbacks alone.
	known := []string{"CHRONOS_DATA_DIR", "CHRONOS_CALLBACK_CA_FILE"}
	for name := range schema.Properties.Config.Properties {
		known = append(known, name)
	}
	for _, values := range []string{least, everything} {
		_, c := render(t, values).deployment(t)
		for _, v := range c.Env {
			if strings.HasPrefix(v.Name, "CHRONOS_") && !slices.Contains(known, v.Name) {
				known = append(known, v.Name)
			}
		}
	}
	slices.Sort(known)
	node, _, _ := strings.Cut(readFile(t, root+"/docs/configuration.md"), "\n## Kafka bridge\n")
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(CHRONOS_[A-Z_]+)`").FindAllStringSubmatch(node, -1) {
		want = append(want, row[1])
	}
	slices.Sort(want)
	equal(t, "variables", known, want)
}

// TestValuesReachTheObjects: what no other test looks at.
func TestValuesReachTheObjects(t *testing.T) {
	t.Parallel()
	o := render(t, everything)
	d, c := o.deployment(t)
	pod := d.Spec.Template.Spec
	nodes := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	equal(t, "values", map[string]any{
		"replicas": *d.Spec.Replicas, "image": c.Image, "pullPolicy": string(c.ImagePullPolicy), "imagePullSecrets": pod.ImagePullSecrets[0].Name,
		"nodeSelector": pod.NodeSelector["example.com/pool"], "tolerations": pod.Tolerations[0].Key, "affinity": nodes[0].MatchExpressions[0].Values[0],
		"priorityClassName": pod.PriorityClassName, "podLabels": d.Spec.Template.Labels["example.com/team"], "podAnnotations": d.Spec.Template.Annotations["example.com/team"],
		"resources": c.Resources.Limits.Memory().String(), "service.type": string(o.services[0].Spec.Type), "service.annotations": o.services[0].Annotations["example.com/zone"],
		"podDisruptionBudget": o.budgets[0].Spec.MaxUnavailable.String(), "serviceMonitor.interval": string(o.monitors[0].Spec.Endpoints[0].Interval),
		"tlsConfig": *o.monitors[0].Spec.Endpoints[0].TLSConfig.ServerName,
	}, map[string]any{
		"replicas": int32(5), "image": "registry.example.com/chronos:v9.8.7", "pullPolicy": "Always", "imagePullSecrets": "registry",
		"nodeSelector": "timers", "tolerations": "example.com/timers", "affinity": "amd64",
		"priorityClassName": "high", "podLabels": "shop", "podAnnotations": "shop",
		"resources": "2Gi", "service.type": "LoadBalancer", "service.annotations": "inner",
		"podDisruptionBudget": "1", "serviceMonitor.interval": "30s",
		"tlsConfig": "timers-admin.team.svc",
	})
	_, c = render(t, least).deployment(t)
	equal(t, "image", c.Image, "registry.example.com/chronos:v0.2.0")
	account := render(t, everything, "--set", "serviceAccount.name=").accounts[0]
	equal(t, "annotation of the account", account.Annotations["example.com/role"], "none")
}

// TestNodesAreSpread over machines and zones.
func TestNodesAreSpread(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]core.UnsatisfiableConstraintAction{least: core.ScheduleAnyway, everything: core.DoNotSchedule} {
		var over []string
		d, _ := render(t, values).deployment(t)
		for _, s := range d.Spec.Template.Spec.TopologySpreadConstraints {
			over = append(over, s.TopologyKey)
			equal(t, "spread over "+s.TopologyKey, s.WhenUnsatisfiable, want)
		}
		equal(t, "spread", over, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"})
	}
}

// TestConfigIsWritten: numbers and switches reach a node as they are written.
func TestConfigIsWritten(t *testing.T) {
	t.Parallel()
	_, c := render(t, everything).deployment(t)
	for name, want := range map[string]string{"CHRONOS_SLOTS": "1000000", "CHRONOS_UI": "false", "CHRONOS_LOG_FORMAT": "text", "CHRONOS_CALLBACK_DENY": "*.internal.example.com"} {
		if got := variables(c)[name].Value; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestRulesAreThoseOfTheRepository: the chart has the alerts of deploy/prometheus, with links into the published documents.
func TestRulesAreThoseOfTheRepository(t *testing.T) {
	t.Parallel()
	const original, file = root + "/deploy/prometheus/chronos.rules.yaml", "files/chronos.rules.yaml"
	rules := readFile(t, original)
	if rules != readFile(t, filepath.Join(chart, file)) {
		t.Errorf("%s of the chart is another file than deploy/prometheus/chronos.rules.yaml: copy the latter", file)
	}
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(rules), &want); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range want.Groups {
		for _, rule := range group.Rules {
			alerts++
			rule.Annotations["runbook_url"] = "https://example.com/chronos/" + rule.Annotations["runbook_url"]
		}
	}
	if alerts < 13 {
		t.Errorf("%d alerts", alerts)
	}
	made := render(t, everything).rules[0]
	equal(t, "rules", made.Spec, want)
	equal(t, "label for the operator", made.Labels["release"], "prometheus")
}

// TestMonitorFindsTheAdminService: the operator scrapes the admin port of the admin Service, and nothing else.
func TestMonitorFindsTheAdminService(t *testing.T) {
	t.Parallel()
	o := render(t, everything)
	m := o.monitors[0]
	selects := labels.SelectorFromSet(m.Spec.Selector.MatchLabels)
	for _, s := range o.services {
		if admin := strings.HasSuffix(s.Name, "-admin"); selects.Matches(labels.Set(s.Labels)) != admin {
			t.Errorf("the monitor selects %s: %v", s.Name, !admin)
		} else if admin && s.Spec.Ports[0].Name != m.Spec.Endpoints[0].Port {
			t.Errorf("the port %s is none of %s", m.Spec.Endpoints[0].Port, s.Name)
		}
	}
	equal(t, "label for the operator", m.Labels["release"], "prometheus")
}

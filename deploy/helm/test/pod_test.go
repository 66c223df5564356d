package chart_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"chronos/scheduler/timer"
)

// TestSelectorsMatch: each selector matches the pods of the release, and no pods of another release.
func TestSelectorsMatch(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, everything} {
		o := render(t, values)
		d, _ := o.deployment(t)
		selectors := map[string]*meta.LabelSelector{"Deployment": d.Spec.Selector}
		for _, s := range o.services {
			selectors["Service "+s.Name] = &meta.LabelSelector{MatchLabels: s.Spec.Selector}
		}
		for _, b := range o.budgets {
			selectors["PodDisruptionBudget"] = b.Spec.Selector
		}
		for _, p := range o.policies {
			selectors["NetworkPolicy"] = &p.Spec.PodSelector
		}
		for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
			selectors["spread over "+spread.TopologyKey] = spread.LabelSelector
		}
		if len(selectors) != 7 {
			t.Errorf("%s: %d selectors, want 7", values, len(selectors))
		}
		mine := labels.Set(d.Spec.Template.Labels)
		theirs := labels.Merge(mine, labels.Set{"app.kubernetes.io/instance": "another"})
		for whose, selector := range selectors {
			matches, err := meta.LabelSelectorAsSelector(selector)
			if err != nil || !matches.Matches(mine) || matches.Matches(theirs) {
				t.Errorf("%s: the selector of %s, %v (%v), must match %v, and not the pods of another release", values, whose, selector, err, mine)
			}
		}
	}
}

// TestPortsExist: each port that an object names is a port of the container, and the admin Service is the only Service with
// the admin listener.
func TestPortsExist(t *testing.T) {
	t.Parallel()
	for values, public := range map[string]int32{least: 7253, everything: 80} {
		o := render(t, values)
		_, c := o.deployment(t)
		for name, variable := range map[string]string{"public": "CHRONOS_LISTEN", "admin": "CHRONOS_ADMIN_LISTEN"} {
			if want := ":" + strconv.Itoa(int(portOf(t, c, name))); variables(c)[variable].Value != want {
				t.Errorf("%s: %s is %q, want %q", values, variable, variables(c)[variable].Value, want)
			}
		}
		for _, s := range o.services {
			want, number := "public", public
			if strings.HasSuffix(s.Name, "-admin") {
				want, number = "admin", 7254
			}
			if len(s.Spec.Ports) != 1 || s.Spec.Ports[0].TargetPort.StrVal != want || s.Spec.Ports[0].Port != number {
				t.Errorf("%s: the Service %s has the ports %v; want %d for %s alone", values, s.Name, s.Spec.Ports, number, want)
			}
			if want == "admin" && s.Spec.Type != core.ServiceTypeClusterIP {
				t.Errorf("%s: the admin Service is of the type %s", values, s.Spec.Type)
			}
		}
		for _, p := range o.policies {
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					portOf(t, c, port.Port.StrVal)
				}
			}
		}
	}
}

func portOf(t *testing.T, c core.Container, name string) int32 {
	t.Helper()
	i := slices.IndexFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("the container has no port %q: %v", name, c.Ports)
	}
	return c.Ports[i].ContainerPort
}

// TestNetworkPolicy: the public listener is open as far as the values say, and the admin listener to named peers alone.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	found := map[string]map[string]int{}
	for _, values := range []string{least, everything} {
		peers := map[string]int{}
		p := render(t, values).policies[0].Spec
		for _, rule := range p.Ingress {
			for _, port := range rule.Ports {
				peers[port.Port.StrVal] = len(rule.From)
			}
		}
		peers["types"], peers["egress"] = len(p.PolicyTypes), len(p.Egress)
		found[values] = peers
	}
	equal(t, "numbers of peers", found, map[string]map[string]int{
		least:      {"public": 0, "types": 1, "egress": 0}, // a rule without peers lets everybody in
		everything: {"public": 1, "admin": 1, "types": 2, "egress": 1},
	})
}

// TestPodIsConfined: the process has no rights that a node does without, and Kubernetes gives the pod neither a token nor
// variables that a node may take for its own.
func TestPodIsConfined(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, everything} {
		o := render(t, values)
		d, c := o.deployment(t)
		pod := d.Spec.Template.Spec
		no, yes, user, group := false, true, int64(65532), int64(65532)
		equal(t, "security of the pod", pod.SecurityContext, &core.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &group, FSGroup: &group,
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		})
		equal(t, "security of the container", c.SecurityContext, &core.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
		})
		equal(t, "token of the account", pod.AutomountServiceAccountToken, &no)
		equal(t, "variables of Services", pod.EnableServiceLinks, &no)
		for _, a := range o.accounts {
			equal(t, "account", pod.ServiceAccountName, a.Name)
			equal(t, "token of the made account", a.AutomountServiceAccountToken, &no)
		}
		if values == everything && pod.ServiceAccountName != "shop" {
			t.Errorf("the account is %q, want the account that exists", pod.ServiceAccountName)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources %v", values, c.Resources)
		}
	}
}

// TestStopIsGraceful: load balancers forget a pod before SIGTERM, and Kubernetes waits longer than a node takes to stop.
func TestStopIsGraceful(t *testing.T) {
	t.Parallel()
	for values, delay := range map[string]int64{least: 5, everything: 15} {
		d, c := render(t, values).deployment(t)
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil || c.Lifecycle.PreStop.Sleep.Seconds != delay {
			t.Fatalf("%s: the lifecycle is %v; want a sleep of %d s before SIGTERM", values, c.Lifecycle, delay)
		}
		grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds-delay) * time.Second
		if longest := longestStop(t); grace <= longest {
			t.Errorf("%s: Kubernetes kills a node %v after SIGTERM, and a node may take %v", values, grace, longest)
		}
		if u := d.Spec.Strategy.RollingUpdate; u == nil || u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.IntValue() != 1 {
			t.Errorf("%s: a rollout is %v; want a new node before an old node stops", values, d.Spec.Strategy)
		}
	}
}

// longestStop is the sum of the limits in docs/operating.md. A callback under way may have the longest timeout.
func longestStop(t *testing.T) time.Duration {
	t.Helper()
	_, section, _ := strings.Cut(readFile(t, root+"/docs/operating.md"), "\n## Stopping a node\n")
	section, _, _ = strings.Cut(section, "\n## ")
	limits := regexp.MustCompile(`(?m)^\| [^|]+ \| ([0-9.]+) s\b`).FindAllStringSubmatch(section, -1)
	if len(limits) != 4 {
		t.Fatalf("found the limits %v; want four", limits)
	}
	sum := timer.MaxTimeout
	for _, limit := range limits {
		seconds, err := strconv.ParseFloat(limit[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

// TestSecretsStaySecret: a pod has the named Secrets, by reference, and the chart puts no secret into an object.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		least:      {"shop-redis CHRONOS_REDIS"},
		everything: {"shop-redis CHRONOS_REDIS", "shop-tls /etc/chronos/tls", "shop-tokens /etc/chronos/tokens", "shop-webhook CHRONOS_WEBHOOK_SECRETS"},
	} {
		o := render(t, values)
		d, c := o.deployment(t)
		var got []string
		for name, v := range variables(c) {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && v.ValueFrom.SecretKeyRef.Key == name {
				got = append(got, v.ValueFrom.SecretKeyRef.Name+" "+name)
			}
		}
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Secret == nil {
				continue
			}
			got = append(got, v.Secret.SecretName+" "+mountOf(t, c, v.Name))
			if mode := *v.Secret.DefaultMode; mode != 0o440 {
				t.Errorf("%s: the files of %s have the mode %04o; a node refuses a tokens file for all", values, v.Name, mode)
			}
		}
		slices.Sort(got)
		equal(t, values, got, want)
		for _, m := range o.configMaps {
			for key := range m.Data {
				if key != "destinations" {
					t.Errorf("%s: the ConfigMap %s has the key %s", values, m.Name, key)
				}
			}
		}
	}
}

func mountOf(t *testing.T, c core.Container, volume string) string {
	t.Helper()
	i := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == volume })
	if i < 0 || !c.VolumeMounts[i].ReadOnly {
		t.Fatalf("the volume %s is mounted nowhere, or not for reading alone: %v", volume, c.VolumeMounts)
	}
	return c.VolumeMounts[i].MountPath
}

// variables are the environment of a container. Kubernetes takes the last of two variables with one name.
func variables(c core.Container) map[string]core.EnvVar {
	env := map[string]core.EnvVar{}
	for _, v := range c.Env {
		env[v.Name] = v
	}
	return env
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

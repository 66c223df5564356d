// Package chart_test checks the Helm chart of chronos: the objects that helm renders, the values that the chart refuses, and
// a node that runs with the environment of a rendered pod.
package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const (
	root       = "../../.."
	chart      = "../chronos"
	least      = "testdata/least.yaml"
	everything = "testdata/everything.yaml"
	release    = "shop"
	namespace  = "team"
)

// What the tests start.
var helm, binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds helm and a node, each in the module that pins its dependencies, and runs the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chronos-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the node:", err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary = filepath.Join(dir, "chronos")
	for _, args := range [][]string{{"build", "-C", root, "-o", binary, "./cmd/chronos"}, {"tool", "-modfile=" + root + "/.ci/tools.mod", "-n", "helm"}} {
		cmd := exec.Command("go", args...) //nolint:noctx // for all tests
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "go", args, err)
			return 1
		}
		helm = strings.TrimSpace(string(out))
	}
	return m.Run()
}

// runHelm runs helm, and returns all that helm prints.
func runHelm(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, helm, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// template renders the chart with a file of values, and with further flags of helm.
func template(t *testing.T, values string, flags ...string) (out, errs string, err error) {
	t.Helper()
	return runHelm(t, append([]string{"template", release, chart, "--namespace", namespace, "--values", values}, flags...)...)
}

// objects are the rendered objects.
type objects struct {
	text        string
	all         []runtime.Object
	deployments []*apps.Deployment
	services    []*core.Service
	accounts    []*core.ServiceAccount
	configMaps  []*core.ConfigMap
	budgets     []*policy.PodDisruptionBudget
	policies    []*networking.NetworkPolicy
	monitors    []*monitoring.ServiceMonitor
	rules       []*monitoring.PrometheusRule
}

// render renders the chart, and decodes each object into the type of Kubernetes or of the Prometheus operator. An unknown or
// doubled member is an error.
func render(t *testing.T, values string, flags ...string) *objects {
	t.Helper()
	out, errs, err := template(t, values, flags...)
	if err != nil || errs != "" {
		t.Fatalf("helm template: %v\n%s", err, errs)
	}
	o := &objects{text: out}
	decoder := strictDecoder(t)
	for document := range strings.SplitSeq(out, "\n---\n") {
		made, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		o.add(t, made)
	}
	return o
}

func (o *objects) add(t *testing.T, made runtime.Object) {
	t.Helper()
	o.all = append(o.all, made)
	switch made := made.(type) {
	case *apps.Deployment:
		o.deployments = append(o.deployments, made)
	case *core.Service:
		o.services = append(o.services, made)
	case *core.ServiceAccount:
		o.accounts = append(o.accounts, made)
	case *core.ConfigMap:
		o.configMaps = append(o.configMaps, made)
	case *policy.PodDisruptionBudget:
		o.budgets = append(o.budgets, made)
	case *networking.NetworkPolicy:
		o.policies = append(o.policies, made)
	case *monitoring.ServiceMonitor:
		o.monitors = append(o.monitors, made)
	case *monitoring.PrometheusRule:
		o.rules = append(o.rules, made)
	default:
		t.Errorf("no test knows an object of the type %T", made)
	}
}

func strictDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// deployment is the only Deployment, and container the only container of its pods.
func (o *objects) deployment(t *testing.T) (d *apps.Deployment, container core.Container) {
	t.Helper()
	if len(o.deployments) != 1 || len(o.deployments[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d deployments; want one, with one container", len(o.deployments))
	}
	return o.deployments[0], o.deployments[0].Spec.Template.Spec.Containers[0]
}

// kinds are the kinds of the objects, in order.
func (o *objects) kinds() (kinds []string) {
	for _, one := range o.all {
		kinds = append(kinds, one.GetObjectKind().GroupVersionKind().Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// TestRendersItsObjects: each object decodes strictly, is in the namespace, and has a name of its own in its kind.
func TestRendersItsObjects(t *testing.T) {
	t.Parallel()
	always := []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service"}
	for _, c := range []struct {
		values string
		flags  []string
		name   string
		want   []string
	}{
		{least, nil, "shop-chronos", append([]string{"ServiceAccount"}, always...)},
		{everything, nil, "timers", append([]string{"ConfigMap", "PrometheusRule", "ServiceMonitor"}, always...)},
		{least, []string{"--set", "networkPolicy.enabled=false,podDisruptionBudget.enabled=false"}, "shop-chronos", []string{"Deployment", "Service", "Service", "ServiceAccount"}},
	} {
		o := render(t, c.values, c.flags...)
		slices.Sort(c.want)
		if got := o.kinds(); !slices.Equal(got, c.want) {
			t.Errorf("%s %v: rendered %v, want %v", c.values, c.flags, got, c.want)
		}
		seen := map[string]bool{}
		for _, one := range o.all {
			object, is := one.(meta.Object)
			if !is {
				t.Fatalf("%T has no metadata", one)
			}
			id := fmt.Sprintf("%T %s", one, object.GetName())
			if seen[id] || object.GetNamespace() != namespace || !strings.HasPrefix(object.GetName(), c.name) {
				t.Errorf("%s: %s is in the namespace %q, has another name than %s, or is there twice", c.values, id, object.GetNamespace(), c.name)
			}
			seen[id] = true
		}
	}
}

// TestEverythingIsSwitchedOn: testdata/everything.yaml has a value for each member of values.yaml, so the tests see what each
// member does.
func TestEverythingIsSwitchedOn(t *testing.T) {
	t.Parallel()
	given := readValues(t, everything)
	missing := defaultsIn(readValues(t, filepath.Join(chart, "values.yaml")), given, "")
	if len(missing) > 0 {
		t.Errorf("%s lacks, or has as in values.yaml: %v", everything, missing)
	}
}

// defaultsIn are the paths of the values that given lacks, or has as in the defaults. A switch may be on by default.
func defaultsIn(defaults, given map[string]any, path string) (paths []string) {
	for name, value := range defaults {
		got, is := given[name]
		inner, isMap := value.(map[string]any)
		on, _ := value.(bool)
		switch innerGot, _ := got.(map[string]any); {
		case is && isMap && len(inner) > 0:
			paths = append(paths, defaultsIn(inner, innerGot, path+name+".")...)
		case !is || !on && fmt.Sprint(value) == fmt.Sprint(got):
			paths = append(paths, path+name)
		}
	}
	slices.Sort(paths)
	return paths
}

// TestNotes: the notes after an installation name the Services, and say what is open.
func TestNotes(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		least:      {"3 nodes", "http://shop-chronos.team:7253/timers", "exec deploy/shop-chronos -- chronos status", "Anyone who reaches the public listener"},
		everything: {"5 nodes", "https://timers.team:80/timers", "https://localhost:7254/ui/"},
	} {
		out, errs, err := runHelm(t, "install", release, chart, "--namespace", namespace, "--values", values, "--dry-run=client")
		if err != nil {
			t.Fatalf("%v\n%s", err, errs)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, part := range want {
			if !strings.Contains(notes, part) {
				t.Errorf("%s: the notes lack %q:\n%s", values, part, notes)
			}
		}
		if values == everything && strings.Contains(notes, "Anyone") {
			t.Errorf("with a file of tokens the notes call the listener open:\n%s", notes)
		}
	}
}

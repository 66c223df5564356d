package deploytest

import (
	"encoding/json"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"

	"chronos/scheduler/verify/testkit"
)

// scraped reads the metrics of services as Prometheus does: by name and port of a service. The listener refuses
// other names.
func (c *cluster) scraped(targets ...string) {
	c.t.Helper()
	for _, target := range targets {
		name, port, err := net.SplitHostPort(target)
		if err != nil {
			c.t.Fatal(err)
		}
		answer, err := testkit.Ask(nil, "GET", "http://"+net.JoinHostPort(c.addresses[name], port)+"/metrics", "", "Host", target)
		if err != nil || answer.Status != 200 || !strings.Contains(answer.Body, "chronos_build_info{") {
			c.t.Errorf("metrics of %s: %d, %v, %.200s", target, answer.Status, err, answer.Body)
		}
	}
}

// TestPrometheusScrapesTheServices compares the targets with the services whose metrics the tests of compose.yaml read.
func TestPrometheusScrapesTheServices(t *testing.T) {
	t.Parallel()
	prometheus := compose(t).Services["prometheus"]
	var config struct {
		Scrapes []struct {
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
			DNS []struct {
				Names []string `yaml:"names"`
				Port  string   `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	file := strings.TrimPrefix(prometheus.Command[0], "--config.file=")
	readYAML(t, mounted(t, prometheus, file), &config)
	var targets []string
	for _, scrape := range config.Scrapes {
		for _, static := range scrape.Static {
			targets = append(targets, static.Targets...)
		}
		for _, dns := range scrape.DNS {
			targets = append(targets, net.JoinHostPort(dns.Names[0], dns.Port))
		}
	}
	if got, want := strings.Join(targets, " "), "node-1:7254 node-2:7254 bridge:7255"; got != want {
		t.Errorf("Prometheus scrapes %s; want %s", got, want)
	}
}

// TestGrafanaFindsDashboardAndPrometheus follows the paths of the provisioning files into the repository.
func TestGrafanaFindsDashboardAndPrometheus(t *testing.T) {
	t.Parallel()
	project := compose(t)
	grafana := project.Services["grafana"]
	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	readYAML(t, mounted(t, grafana, "/etc/grafana/provisioning/datasources/prometheus.yaml"), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("data sources are %+v; want the Prometheus of the project", sources.Datasources)
	}
	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, mounted(t, grafana, "/etc/grafana/provisioning/dashboards/chronos.yaml"), &dashboards)
	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Options.Path != path.Dir(home) {
		t.Errorf("Grafana reads dashboards of %+v; want the folder of %s", dashboards.Providers, home)
	}
	text, err := os.ReadFile(mounted(t, grafana, home))
	if err != nil || !json.Valid(text) {
		t.Errorf("the dashboard of Grafana is no JSON: %v", err)
	}
}

// mounted is the file of the repository that a container has at a path.
func mounted(t *testing.T, service types.ServiceConfig, name string) string {
	t.Helper()
	for _, volume := range service.Volumes {
		below, err := filepath.Rel(volume.Target, name)
		if err == nil && volume.Type == types.VolumeTypeBind && filepath.IsLocal(below) {
			return filepath.Join(volume.Source, below)
		}
	}
	t.Fatalf("%s has no file of the repository at %s", service.Name, name)
	return ""
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

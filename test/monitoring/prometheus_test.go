package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// prometheus is a real one that reads the programs of the sandbox each second.
type prometheus struct {
	cluster *sandbox.Sandbox
	dir     string
	port    int
	api     promv1.API
}

func newPrometheus(cluster *sandbox.Sandbox, token string) (*prometheus, error) {
	p := &prometheus{cluster: cluster, dir: filepath.Join(cluster.Dir(), "prometheus")}
	if err := os.MkdirAll(filepath.Join(p.dir, "targets"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "token"), []byte(token), 0o600); err != nil {
		return nil, err
	}
	var err error
	if p.port, err = sandbox.FreePort("127.0.0.1"); err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: p.url()})
	if err != nil {
		return nil, err
	}
	p.api = promv1.NewAPI(client)
	return p, nil
}

func (p *prometheus) url() string { return fmt.Sprintf("http://127.0.0.1:%d", p.port) }

// target has Prometheus read a program at a port of this machine.
func (p *prometheus) target(job string, port int) {
	data, err := json.Marshal([]map[string]any{{"targets": []string{fmt.Sprintf("127.0.0.1:%d", port)}, "labels": map[string]string{"job": job}}})
	if err == nil {
		err = os.WriteFile(p.targetFile(job, port), data, 0o600)
	}
	if err != nil {
		panic(err) // the directory is the test's own
	}
}

func (p *prometheus) targetFile(job string, port int) string {
	return filepath.Join(p.dir, "targets", fmt.Sprintf("%s-%d.json", job, port))
}

const prometheusConfig = `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: g8s
  scheme: https
  authorization: {credentials_file: token}
  tls_config: {insecure_skip_verify: true}
  file_sd_configs: [{files: [targets/*.json], refresh_interval: 1s}]
  metric_relabel_configs:
%s
- job_name: cards
  honor_labels: true
  static_configs: [{targets: [%q]}]
`

func (p *prometheus) start(ctx context.Context, exporters string) error {
	rules, err := manifests.FS.ReadFile("monitoring/plain/rules.yaml")
	if err != nil {
		return err
	}
	scrape, err := manifests.FS.ReadFile("monitoring/plain/scrape.yaml")
	if err != nil {
		return err
	}
	// What is dropped is dropped here, too: no rule may look at it.
	_, dropped, _ := strings.Cut(string(scrape), "  metric_relabel_configs:\n")
	dropped, _, _ = strings.Cut(dropped, "- job_name")
	for name, content := range map[string]string{
		"rules.yaml": hasten(string(rules)), "prometheus.yaml": fmt.Sprintf(prometheusConfig, strings.TrimRight(dropped, "\n"), exporters),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	_, err = p.cluster.StartProcess(ctx, sandbox.ProcessSpec{
		Name: "prometheus", Path: filepath.Join(p.cluster.BinDir(), "prometheus"), Port: p.port,
		Args: []string{
			"--config.file=" + filepath.Join(p.dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(p.dir, "data"),
			fmt.Sprintf("--web.listen-address=127.0.0.1:%d", p.port),
		},
		Ready: sandbox.HTTPReady(p.url() + "/-/ready"),
	})
	if err != nil {
		return fmt.Errorf("starting Prometheus, which make monitoring-tools builds: %w", err)
	}
	return nil
}

// The times of the rules, and what they are in the test, which has no hours.
var (
	patience = regexp.MustCompile(`(?m)^    for: \w+\n`)
	windows  = regexp.MustCompile(`\[(5m|10m|1h)\]`)
	seconds  = strings.NewReplacer("> 3600", "> 5", "> 7200", "> 5", `{state="torn"}) > 300`, `{state="torn"}) > 5`, "_timestamp_seconds) > 300", "_timestamp_seconds) > 100")
)

// hasten makes rules fire within seconds.
func hasten(rules string) string {
	return seconds.Replace(windows.ReplaceAllString(patience.ReplaceAllString(rules, ""), "[10s]"))
}

// value is the only sample of an expression, and false if there is none.
func (p *prometheus) value(ctx context.Context, expr string) (float64, bool) {
	result, _, err := p.api.Query(ctx, expr, time.Now())
	vector, ok := result.(model.Vector)
	if err != nil || !ok || len(vector) == 0 {
		return 0, false
	}
	return float64(vector[0].Value), true
}

// labels are the names of the labels in the answer to an expression, nil for no answer.
func (p *prometheus) labels(ctx context.Context, expr string) map[string]bool {
	result, _, err := p.api.Query(ctx, expr, time.Now())
	vector, ok := result.(model.Vector)
	if err != nil || !ok || len(vector) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, sample := range vector {
		for name := range sample.Metric {
			names[string(name)] = true
		}
	}
	return names
}

// firing are the alerts that fire, by name.
func (p *prometheus) firing(ctx context.Context) (map[string]model.LabelSet, error) {
	alerts, err := p.api.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]model.LabelSet{}
	for _, alert := range alerts.Alerts {
		if alert.State == promv1.AlertStateFiring {
			all[string(alert.Labels["alertname"])] = alert.Labels
		}
	}
	return all, nil
}

// troubles are what Prometheus says of programs that it cannot read.
func (p *prometheus) troubles(ctx context.Context) string {
	targets, err := p.api.Targets(ctx)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, target := range targets.Active {
		if target.LastError != "" {
			fmt.Fprintf(&out, "%s: %s\n", target.Labels["job"], target.LastError)
		}
	}
	return out.String()
}

// extend is an extender of the scheduler that takes all nodes, as fast as it is told.
func (w *world) extend(out http.ResponseWriter, r *http.Request) {
	if w.slow.Load() {
		time.Sleep(300 * time.Millisecond)
	}
	var args struct {
		NodeNames *[]string `json:"nodenames"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &args)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"nodenames": args.NodeNames}) // the scheduler is gone, and asks again
}

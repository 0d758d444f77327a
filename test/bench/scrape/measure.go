package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bench/load/process"
	"g8s.host/gpu-scheduler/test/bench/series"
)

var nothing = regexp.MustCompile("^$")

// get asks a program of this machine, which has a certificate that nobody signed, as Prometheus.
func (w *world) get(ctx context.Context, port int, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its own certificate
	defer insecure.CloseIdleConnections()
	answer, err := insecure.Do(request)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, string(text), err
}

// askServer has the server count some requests: it shows what it was asked alone.
func (w *world) askServer(ctx context.Context) error {
	for _, p := range w.programs {
		if p.monitor != sandbox.ServerName {
			continue
		}
		for _, path := range []string{"/healthz", "/version", "/openapi.json", "/api/v1/jobs", "/api/v1/nodes", "/api/v1/pools", "/api/v1/queue", "/api/v1/jobs/job-00000"} {
			if _, _, err := w.get(ctx, p.port, path); err != nil {
				return fmt.Errorf("asking %s: %w", p.name, err)
			}
		}
	}
	return nil
}

// weigh scrapes each program once.
func (w *world) weigh(ctx context.Context) error {
	for _, p := range w.programs {
		dropped, err := series.Dropped(p.monitor)
		if err != nil {
			return err
		}
		status, text, err := w.get(ctx, p.port, "/metrics")
		if err != nil {
			return fmt.Errorf("scraping %s: %w", p.name, err)
		}
		if status != http.StatusOK {
			return fmt.Errorf("scraping %s: %d %s", p.name, status, text)
		}
		p.scraped, p.kept = series.Weigh(text, nothing), series.Weigh(text, dropped)
		w.cluster.ReportProgress("%s: %s are scraped, %s kept; most of them: %s", p.name, p.scraped, p.kept, series.Heaviest(text, dropped))
	}
	return nil
}

// measure compares the CPU time of the programs without and with a Prometheus that looks at them.
func (w *world) measure(ctx context.Context) error {
	w.cluster.ReportProgress("%s without Prometheus", w.phase)
	before, err := w.spend(ctx)
	if err != nil {
		return err
	}
	prometheus, err := w.startPrometheus(ctx)
	if err != nil {
		return err
	}
	w.cluster.ReportProgress("%s with Prometheus, every %s", w.phase, w.interval)
	begun, err := process.CPUOf(prometheus.PID())
	if err != nil {
		return err
	}
	with, err := w.spend(ctx)
	if err != nil {
		return err
	}
	ended, err := process.CPUOf(prometheus.PID())
	if err != nil {
		return err
	}
	scrapes := w.phase / w.interval
	w.perRound = (ended - begun) / scrapes
	for i, p := range w.programs {
		p.perScrape = max(0, with[i]-before[i]) / scrapes
	}
	return nil
}

// spend waits for a phase, and returns the CPU time that each program had in it.
func (w *world) spend(ctx context.Context) ([]time.Duration, error) {
	used := make([]time.Duration, len(w.programs))
	for i, p := range w.programs {
		cpu, err := process.CPUOf(p.pid)
		if err != nil {
			return nil, fmt.Errorf("reading the CPU time of %s: %w", p.name, err)
		}
		used[i] = -cpu
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(w.phase):
	}
	for i, p := range w.programs {
		cpu, err := process.CPUOf(p.pid)
		if err != nil {
			return nil, fmt.Errorf("reading the CPU time of %s: %w", p.name, err)
		}
		used[i] += cpu
	}
	return used, nil
}

// startPrometheus starts a real one that looks at all programs as their monitors say, and returns when it does.
func (w *world) startPrometheus(ctx context.Context) (*sandbox.Process, error) {
	dir := filepath.Join(w.cluster.Dir(), "prometheus")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %s, scrape_timeout: %s}\nscrape_configs:\n", w.interval, w.interval)
	for _, p := range w.programs {
		dropped, err := series.Dropped(p.monitor)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&config, "- job_name: %s\n  scheme: https\n  authorization: {credentials_file: token}\n  tls_config: {insecure_skip_verify: true}\n"+
			"  static_configs: [{targets: [\"127.0.0.1:%d\"]}]\n  metric_relabel_configs: [{action: drop, source_labels: [__name__], regex: %q}]\n",
			p.name, p.port, dropped)
	}
	for name, text := range map[string]string{"prometheus.yaml": config.String(), "token": w.token} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	port, err := sandbox.FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	started, err := w.cluster.StartProcess(ctx, sandbox.ProcessSpec{
		Name: "prometheus", Path: filepath.Join(w.cluster.BinDir(), "prometheus"), Port: port,
		Args: []string{
			"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port),
		},
		Ready: w.seesAll(port),
	})
	if err != nil {
		return nil, fmt.Errorf("starting Prometheus, which make monitoring-tools builds: %w", err)
	}
	return started, nil
}

// seesAll asks Prometheus whether it has looked at each program.
func (w *world) seesAll(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/v1/query?query=sum(up)", port), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if want := fmt.Sprintf(`"%d"]`, len(w.programs)); err != nil || !strings.Contains(string(text), want) {
			return fmt.Errorf("it says %s of %d programs, %w", text, len(w.programs), err)
		}
		return nil
	}
}

package documents

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/pkg/server"
)

func amount(text string) resource.Quantity { return resource.MustParse(text) }

// files are the files of the mapping under the names that its commands have for them, and what requests send.
var files = map[string]string{"train-job.yaml": "training.yaml", "task1.yaml": "inference.yaml", "task2.yaml": "notebook.yaml", "pool.yaml": "pool.yaml"}

const batch = `{"yamlContents": [
 "kind: training\njob: {name: b1}\nenvironment: {image: busybox}\nresources: {pool: training-pool, gpu: 1, cpu: 1, memory: 1Gi}\n",
 "kind: training\njob: {name: b2}\nenvironment: {image: busybox}\nresources: {pool: training-pool, gpu: 1, cpu: 1, memory: 1Gi}\n"]}`

// inFolder goes to a folder with the files.
func inFolder(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, source := range files {
		data, err := os.ReadFile(filepath.Join("../../../pkg/render/testdata/contract", source))
		if err != nil {
			t.Fatal(err)
		}
		write(name, data)
	}
	write("batch.json", []byte(batch))
	write("label.json", []byte(`{"key": "accelerator", "value": "nvidia-tesla-v100"}`))
	t.Chdir(folder)
}

func (r row) command() string {
	if r.run != "" {
		return r.run
	}
	return r.shows
}

// TestCommands runs the commands of the mapping, one after the other, on one cluster.
func TestCommands(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	inFolder(t)
	for _, r := range commands {
		t.Run(r.command(), func(t *testing.T) {
			args := strings.Fields(r.command())
			settle(t, args)
			code, stdout, stderr := gpuctl(t, args)
			if code != r.code || !regexp.MustCompile(r.want).MatchString(stdout) {
				t.Fatalf("exit code %d, want %d, and stdout like %q\n%s%s", code, r.code, r.want, stdout, stderr)
			}
		})
	}
	for _, name := range []string{"llama3-8b-inference", "data-prep-notebook"} {
		if code, _, stderr := gpuctl(t, []string{"gpuctl", "delete", name}); code != 0 {
			t.Error(stderr)
		}
	}
}

func gpuctl(t *testing.T, args []string) (code int, stdout, stderr string) {
	t.Helper()
	streams, out, errs := cli.TestIOStreams("")
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	code = cli.Run(ctx, cli.NewFactory(streams), append([]string{args[0], "--kubeconfig", cluster.Kubeconfig()}, args[1:]...))
	return code, out.String(), errs.String()
}

// settle waits for what a reader of the document would wait for: that the job runs whose output they read.
func settle(t *testing.T, args []string) {
	t.Helper()
	if args[1] != "logs" {
		return
	}
	if code, _, stderr := gpuctl(t, []string{"gpuctl", "wait", args[2], "--for", "running", "--timeout", "25s"}); code != 0 {
		t.Fatal(stderr)
	}
}

// TestRoutes calls the routes of the mapping.
func TestRoutes(t *testing.T) {
	inFolder(t)
	api := serve(t)
	for _, r := range routes {
		t.Run(r.command(), func(t *testing.T) {
			method, path, _ := strings.Cut(r.command(), " ")
			var got string
			var status int
			// What gpuctl has just deleted may still be going, and a job that was made may not have begun.
			err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
				status, got = call(t, api, method, path, r.send)
				return status == r.code && regexp.MustCompile(r.want).MatchString(got), nil
			})
			if err != nil {
				t.Fatalf("status %d, want %d, and an answer like %q\n%s", status, r.code, r.want, got)
			}
		})
	}
	for _, name := range []string{"b1", "b2"} {
		call(t, api, http.MethodDelete, "/api/v1/jobs/"+name, "")
	}
}

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	s, err := server.New(own, server.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test", Rate: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Mirror(ctx) }()
	api := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		api.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return api
}

// call makes a request; the type of what it sends is that of the file's name.
func call(t *testing.T, api *httptest.Server, method, path, file string) (int, string) {
	t.Helper()
	var body io.Reader
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body = strings.NewReader(string(data))
	}
	request, err := http.NewRequestWithContext(t.Context(), method, api.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if file != "" {
		request.Header.Set("Content-Type", "application/"+strings.TrimPrefix(filepath.Ext(file), "."))
	}
	answer, err := api.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// listed matches a row of the table of docs/documents.md.
var listed = regexp.MustCompile("(?m)^\\| (?:mapping|case study) §[0-9.]+ \\| `([^`]+)` \\|")

// TestTheDocsListWhatDiffers compares the rows that are another with the table of the page.
func TestTheDocsListWhatDiffers(t *testing.T) {
	page, err := os.ReadFile("../../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, match := range listed.FindAllStringSubmatch(string(page), -1) {
		told[strings.ReplaceAll(match[1], "\\|", "|")] = true
	}
	shown := map[string]bool{}
	for _, r := range append(append([]row{}, commands...), routes...) {
		shown[r.shows] = shown[r.shows] || r.differs
	}
	for _, e := range examples {
		shown[e.shows] = e.differs
	}
	for shows, differs := range shown {
		if differs != told[shows] {
			t.Errorf("%s: docs/documents.md lists it: %v, want %v", shows, told[shows], differs)
		}
		delete(told, shows)
	}
	for shows := range told {
		t.Errorf("docs/documents.md lists %s, which no test shows", shows)
	}
}

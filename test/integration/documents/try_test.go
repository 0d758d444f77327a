package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/bounds"
)

// patience is how long a step is waited for that comes at once on an idle machine.
const patience = bounds.Patience

const pollEvery = 300 * time.Millisecond

// TestDocuments tries all that the documents show, on one cluster, in the order in which they show it.
func TestDocuments(t *testing.T) {
	bounds.SkipInShort(t)
	api := serve(t)
	for _, name := range folders {
		t.Run(name, func(t *testing.T) {
			d := load(t, name)
			r := &runner{api: api, dir: d.unpack(t), home: t.TempDir(), shell: d.Shell}
			for i := range d.Items {
				it := &d.Items[i]
				if len(it.Try) == 0 {
					continue
				}
				t.Run(it.ID, func(t *testing.T) {
					for j := range it.Try {
						r.try(t, &it.Try[j])
					}
				})
			}
		})
	}
}

// unpack puts the blocks of a document into a folder, also under the names that its commands have for them.
func (d *document) unpack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", d.Name))); err != nil {
		t.Fatal(err)
	}
	for name, block := range d.Files {
		if err := os.Symlink(block, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// asUser is a function of the shell that runs a command as a user who is no administrator.
const asUser = "user() { KUBECONFIG=$RESEARCHER \"$@\"; }\n"

// runner runs the steps of a document.
type runner struct {
	api       *httptest.Server
	dir, home string
	// shell is what comes before each command: functions of the document.
	shell string
}

// try runs a step, and again where it only looks, until it comes out as wanted.
func (r *runner) try(t *testing.T, s *step) {
	t.Helper()
	var wrong error
	if !s.Awaits {
		wrong = r.once(t.Context(), s)
	} else if err := wait.PollUntilContextTimeout(t.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		if last := r.once(ctx, s); ctx.Err() == nil {
			wrong = last
		}
		return wrong == nil, nil
	}); err != nil && wrong == nil {
		wrong = err
	}
	if wrong != nil {
		t.Fatal(wrong)
	}
}

func (r *runner) once(ctx context.Context, s *step) error {
	var code, success int
	var out string
	var err error
	if s.HTTP != "" {
		success = http.StatusOK
		code, out, err = r.request(ctx, s)
	} else {
		code, out, err = r.run(ctx, s.Run)
	}
	if err != nil {
		return err
	}
	if s.Code != 0 {
		success = s.Code
	}
	if code != success {
		return fmt.Errorf("%s%s: code %d, want %d\n%s", s.Run, s.HTTP, code, success, out)
	}
	if !regexp.MustCompile(s.Want).MatchString(out) {
		return fmt.Errorf("%s%s: want what matches %q\n%s", s.Run, s.HTTP, s.Want, out)
	}
	if s.Holds != "" {
		return r.compare(s.Holds, out)
	}
	return nil
}

// run runs a command of a reader's shell, with our programs and kubectl in its path.
func (r *runner) run(ctx context.Context, script string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", asUser+r.shell+script)
	cmd.Dir = r.dir
	tools := cluster.BinDir()
	repository, err := filepath.Abs("../../..")
	if err != nil {
		return 0, "", err
	}
	cmd.Env = []string{
		"REPOSITORY=" + repository,
		"PATH=" + filepath.Dir(tools) + ":" + tools + ":" + os.Getenv("PATH"), "HOME=" + r.home, "KUBECONFIG=" + cluster.Kubeconfig(), "RESEARCHER=" + researcher, "LC_ALL=C.UTF-8",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, "", fmt.Errorf("running %s: %w", script, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), nil
}

// request calls the REST API; the type of what it sends is that of the file's name.
func (r *runner) request(ctx context.Context, s *step) (int, string, error) {
	method, path, _ := strings.Cut(s.HTTP, " ")
	var body io.Reader
	if s.Send != "" {
		data, err := os.ReadFile(filepath.Join(r.dir, s.Send))
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.api.URL+path, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if s.Send != "" {
		request.Header.Set("Content-Type", "application/"+strings.TrimPrefix(filepath.Ext(s.Send), "."))
	}
	answer, err := r.api.Client().Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// compare returns what of a block is not in an object, in JSON.
func (r *runner) compare(block, object string) error {
	data, err := os.ReadFile(filepath.Join(r.dir, block))
	if err != nil {
		return err
	}
	var want, got any
	if err := yaml.Unmarshal(data, &want); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(object), &got); err != nil {
		return err
	}
	if missing := lacks(want, got, ""); len(missing) > 0 {
		return fmt.Errorf("%s: %s", block, strings.Join(missing, "\n"))
	}
	return nil
}

// lacks returns what of want is not in got, by path. Lists have the entries of want first.
func lacks(want, got any, path string) []string {
	var missing []string
	switch want := want.(type) {
	case map[string]any:
		section, _ := got.(map[string]any)
		for key, value := range want {
			missing = append(missing, lacks(value, section[key], path+"/"+key)...)
		}
	case []any:
		list, _ := got.([]any)
		for i, value := range want {
			var entry any
			if i < len(list) {
				entry = list[i]
			}
			missing = append(missing, lacks(value, entry, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		a, errA := resource.ParseQuantity(fmt.Sprint(want))
		b, errB := resource.ParseQuantity(fmt.Sprint(got))
		if same := errA == nil && errB == nil && a.Cmp(b) == 0; !same && want != got {
			missing = append(missing, fmt.Sprintf("%s: got %v, want %v", path, got, want))
		}
	}
	return missing
}

func TestWhatAnObjectLacksIsNoticed(t *testing.T) {
	want := map[string]any{"a": "x", "b": []any{"y", map[string]any{"cpu": 1.0}}}
	same := map[string]any{"a": "x", "b": []any{"y", map[string]any{"cpu": "1000m"}, "z"}, "d": "e"}
	if missing := lacks(want, same, ""); len(missing) > 0 {
		t.Errorf("what is there is missing: %v", missing)
	}
	for name, got := range map[string]any{
		"a value":  map[string]any{"a": "z", "b": []any{"y", map[string]any{"cpu": 1.0}}},
		"a key":    map[string]any{"b": []any{"y", map[string]any{"cpu": 1.0}}},
		"an entry": map[string]any{"a": "x", "b": []any{"y"}},
		"an order": map[string]any{"a": "x", "b": []any{map[string]any{"cpu": 1.0}, "y"}},
		"a depth":  map[string]any{"a": "x", "b": []any{"y", map[string]any{"cpu": 2.0}}},
	} {
		if len(lacks(want, got, "")) == 0 {
			t.Errorf("%s was not noticed", name)
		}
	}
}

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	s, err := server.New(own, server.Options{Log: slog.New(slog.DiscardHandler), Version: "test", Rate: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.RunCache(ctx) }()
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

package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"

	"g8s.host/gpu-scheduler/test/bounds"
)

// TestVariablesOfAJob: what a container's environment may be asked to be.
func TestVariablesOfAJob(t *testing.T) {
	many := func(count int) string {
		var text strings.Builder
		for i := range count {
			fmt.Fprintf(&text, "V%d: 1, ", i)
		}
		return text.String()
	}
	tests := map[string]struct {
		variables string
		code      int
		want      string
	}{
		"a library to load first":      {"LD_PRELOAD: /lib/jemalloc.so", 0, ""}, // a policy of the cluster decides
		"one name twice":               {"A: 1, B: 2, A: 3", 2, "A"},
		"one name twice, as a list":    {"[{name: A, value: x}, {name: A, value: y}]", 2, "environment variable A is set twice: first on line"},
		"a name that is none":          {`"A=B": 1`, 2, "is not the name of an environment variable"},
		"a name with a line break":     {`"A\nB": 1`, 2, "is not the name of an environment variable"},
		"5,000 variables":              {many(5_000), 0, ""},
		"10,000 variables":             {many(10_000), 2, "the document "},
		"5,000, and one of them twice": {many(5_000) + "V7: again", 2, "V7"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			variables := "{" + test.variables + "}"
			if strings.HasPrefix(test.variables, "[") {
				variables = test.variables
			}
			yaml := strings.Replace(training("sft"), "  image: busybox\n", "  image: busybox\n  env: "+variables+"\n", 1)
			began := time.Now()
			s.expect(test.code, test.want, yaml, "create", "-f", "-")
			if took := time.Since(began); took > bounds.Of(20*time.Second) {
				t.Errorf("it took %v", took)
			}
			want := 1
			if test.code != 0 {
				want = 0
			}
			s.wantObjects(want)
		})
	}
}

// TestAPoolThatIsNotThere: nobody is in it, so the job would wait forever; it is told at once, and made all the same.
func TestAPoolThatIsNotThere(t *testing.T) {
	s := newSession(t)
	s.node("somewhere", map[string]string{names.LabelPool: "training-pool"})
	yaml := training("sft") + "  pool: no-such-pool\n"
	s.expect(0, `no node is in pool "no-such-pool"`, yaml, "create", "-f", "-")
	s.expect(7, `no node is in pool "no-such-pool"`, strings.Replace(yaml, "sft", "two", 1), "create", "-f", "-", "--require-fit")
	s.wantObjects(1)
	s.expect(2, "pool", training("sft")+"  pool: \"a pool\"\n", "create", "-f", "-")
}

// process is gpuctl as a process of its own.
func (s *session) process(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, os.Args[0], append([]string{"--kubeconfig", s.kubeconfig, "-n", s.namespace}, args...)...)
	command.Env = append(os.Environ(), beGpuctl+"=1")
	return command
}

func (s *session) folder(count int) string {
	s.Helper()
	folder := s.TempDir()
	for i := range count {
		name := fmt.Sprintf("job-%05d", i)
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(notebook(name)), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	return folder
}

// TestCtrlCInABatch: what was made is whole and told, the rest is not begun.
func TestCtrlCInABatch(t *testing.T) {
	s := newSession(t)
	folder := s.folder(10)
	kubeconfig := s.kubeconfig
	var made atomic.Int32
	third := make(chan struct{})
	s.through(&between{meddle: func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if !isCreationOf("services", r) || made.Add(1) != 3 {
			return false
		}
		close(third)
		time.Sleep(500 * time.Millisecond) // the signal comes while the request is on its way
		next.ServeHTTP(w, r)
		return true
	}})
	command := s.process(t.Context(), "create", "-f", folder)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	<-third
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, want 130; stderr: %s", code, stderr.String())
	}
	s.kubeconfig = kubeconfig
	told := strings.Count(stdout.String(), " created\n")
	listed := strings.Fields(s.expect(0, "", "", "get", "jobs", "-o", "name").stdout)
	if told < 2 || told > 3 || len(listed) != told {
		t.Errorf("told of %d jobs:\n%s\nand there are %v", told, stdout.String(), listed)
	}
	s.wantObjects(2 * len(listed))
	for _, job := range listed {
		s.wantIncomplete(strings.TrimPrefix(job, "notebook/"), false)
	}
}

// TestNobodyReadsTheOutput: jobs are made whole, whoever listens.
func TestNobodyReadsTheOutput(t *testing.T) {
	tests := map[string]struct {
		// script runs "$@".
		script  string
		objects int
	}{
		"a reader that has gone":   {`"$@" | true`, 10},
		"a reader of one line":     {`"$@" | head -n 1 >/dev/null`, 10},
		"output that is closed":    {`"$@" >&-`, 10},
		"both streams are closed":  {`"$@" >&- 2>&-`, 10},
		"a full device":            {`"$@" >/dev/full; true`, 10},
		"errors that nobody reads": {`"$@" 2>&1 >/dev/null | true`, 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			create := s.process(t.Context(), "create", "-f", s.folder(5))
			command := exec.CommandContext(t.Context(), "sh", append([]string{"-c", test.script, "sh"}, create.Args...)...)
			command.Env = create.Env
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			s.wantObjects(test.objects)
			if _, err := client.CoreV1().Services(s.namespace).List(background, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a list is cut off in silence", func(t *testing.T) {
		s := newSession(t)
		command := s.process(t.Context(), "get", "jobs")
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = reader.Close()
		var stderr bytes.Buffer
		command.Stdout, command.Stderr = writer, &stderr
		s.expect(0, "", training("sft"), "create", "-f", "-")
		err = command.Run()
		_ = writer.Close()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
			t.Errorf("it ended with %v and says %q, want the signal that ends every program in a pipe", err, stderr.String())
		}
	})
}

// TestAFolderOfManyFiles: all are read before any is sent, in a time that grows with them and no faster.
func TestAFolderOfManyFiles(t *testing.T) {
	count := 10_000
	if testing.Short() {
		count = 1_000
	}
	s := newSession(t)
	folder := s.folder(count)
	began := time.Now()
	got := s.expect(0, "", "", "create", "-f", folder, "--dry-run=client", "-o", "name")
	if lines := strings.Count(got.stdout, "\n"); lines != count {
		t.Errorf("%d lines, want %d", lines, count)
	}
	if took := time.Since(began); took > bounds.Of(time.Minute) {
		t.Errorf("%d files took %v", count, took)
	}
	t.Logf("%d files took %v", count, time.Since(began))
	if err := os.WriteFile(filepath.Join(folder, "zzz.yaml"), []byte(strings.Replace(training("last"), "gpu: 1", "gpu: -1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(2, "1 error in the YAML; nothing was done", "", "create", "-f", folder)
	s.wantObjects(0)
}

// TestKubeconfigsThatDoNotWork: each is told apart, with what to do.
func TestKubeconfigsThatDoNotWork(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo)
		code   int
		want   string
	}{
		"a program for credentials that is not there": {func(_ *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Exec: plugin("/no/such/program")}
		}, 5, "The program that this kubeconfig gets credentials from (users, exec) has failed"},
		"a program for credentials that fails": {func(_ *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Exec: plugin("sh", "-c", "exit 7")}
		}, 5, "failed with exit code 7"},
		"a program for credentials that says nonsense": {func(_ *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Exec: plugin("echo", "\x1b[2J")}
		}, 5, "The program that this kubeconfig gets credentials from"},
		"a program for credentials whose token is refused": {func(_ *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Exec: plugin("echo",
				`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"no"}}`)}
		}, 5, "log in again"},
		"a certificate of the user that has expired": {func(t *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{}
			user.ClientCertificateData, user.ClientKeyData = expired(t)
		}, 5, "log in again"},
		"a token that is none": {func(_ *testing.T, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Token: "none"}
		}, 5, "log in again"},
		"an authority that did not sign": {func(t *testing.T, cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData, _ = expired(t)
		}, 1, "certificate-authority"},
		"an address without TLS": {func(_ *testing.T, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			cluster.Server = strings.Replace(cluster.Server, "https://", "http://", 1)
			*user = clientcmdapi.AuthInfo{Token: "secret-token"}
		}, 2, "write https:// in the server of this kubeconfig"},
		"an address of another program, which gets no credentials": {func(t *testing.T, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			cluster.Server = otherProgram(t)
			*user = clientcmdapi.AuthInfo{Token: "secret-token"}
		}, 1, ""},
		"nobody listens": {func(_ *testing.T, cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.Server = "https://127.0.0.1:1"
		}, 9, "Is the cluster of this kubeconfig up?"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			config, err := clientcmd.LoadFromFile(server.kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			current := config.Contexts[config.CurrentContext]
			test.change(t, config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
			s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
			if err := clientcmd.WriteToFile(*config, s.kubeconfig); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"get", "jobs"}, {"create", "-f", "-"}} {
				got := s.expect(test.code, test.want, training("sft"), args...)
				if strings.Contains(got.stderr, "secret-token") || strings.Contains(got.stderr, "\x1b") || strings.Count(got.stderr, "\n") > 8 {
					t.Errorf("it says\n%q", got.stderr)
				}
			}
			s.kubeconfig = server.kubeconfig
			s.wantObjects(0)
		})
	}
}

func plugin(command string, args ...string) *clientcmdapi.ExecConfig {
	return &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: command, Args: args, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
}

// expired makes a certificate that nobody has signed and that is not valid any more.
func expired(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ana", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

// otherProgram is a web server that is no API server, and without TLS. It must not be sent any credentials.
func otherProgram(t *testing.T) string {
	t.Helper()
	b := &between{meddle: func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("the request carries %q", got)
		}
		fmt.Fprint(w, "<html>\x1b[2JIt works!</html>")
		return true
	}}
	s := &session{T: t}
	s.through(b)
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config.Clusters["front"].Server
}

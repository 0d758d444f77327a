// Package console tests the console in a real browser against a real cluster of simulated nodes: what people see, and what hostile texts and pages get.
// Without a browser its tests are skipped; make test-console installs one where it can.
package console

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// patience is how long a test waits for what comes at once on an idle machine.
const patience = bounds.Patience

var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	server  *sandbox.Server
	// tokens are those of the readers of the page, by account.
	tokens = map[string]string{}
	// browserPath is the program of the browser, "" for none.
	browserPath = findBrowser()
	pictures    = flag.String("pictures", "", "write the pictures of docs/console.md into this folder")
	axe         = flag.String("axe", "", "the file axe.min.js of axe-core, to judge each page by its rules, too")
)

// The readers of the page: one who may do everything that the API offers, one who sees and runs the jobs of a team, and one who is known and has no rights.
const (
	admin  = sandbox.ConsoleAccount
	member = "member"
	nobody = "nobody"
	team   = "team-a"
)

// findBrowser returns the browser that drives the tests.
func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func TestMain(m *testing.M) {
	flag.Parse()
	if browserPath == "" {
		os.Exit(m.Run()) // every test says why it is skipped
	}
	fleet := sandbox.DefaultFleet()
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet}, prepareCluster))
}

// needBrowser skips a test where there is no browser.
func needBrowser(t *testing.T) {
	t.Helper()
	if browserPath == "" {
		t.Skip("there is no chromium on this machine: make test-console installs one")
	}
}

func prepareCluster(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(s.RESTConfig()); err != nil {
		return err
	}
	if err := s.InstallScheduler(ctx); err != nil {
		return err
	}
	if _, err := s.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	if err := s.InstallController(ctx); err != nil {
		return err
	}
	if _, err := s.StartController(ctx, sandbox.ControllerOptions{}); err != nil {
		return err
	}
	if err := errors.Join(s.InstallLedger(ctx), s.InstallServer(ctx)); err != nil {
		return err
	}
	ledger, err := s.StartLedger(ctx, sandbox.LedgerOptions{})
	if err != nil {
		return err
	}
	arguments := []string{"--rate=1000", "--burst=1000", "--ledger=" + ledger.URL, "--ledger-ca=" + ledger.CAFile}
	if server, err = s.StartServer(ctx, sandbox.ServerOptions{Args: arguments}); err != nil {
		return err
	}
	if err := s.CreateConsoleAccount(ctx); err != nil {
		return err
	}
	if err := makeReaders(ctx); err != nil {
		return err
	}
	return makeJobs(ctx)
}

// makeReaders makes the accounts beside the one of the sandbox, and a token for each.
func makeReaders(ctx context.Context) error {
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{member, nobody} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, role := range []string{"g8s:reader", "g8s:user"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: member}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: member}},
		}
		if _, err := client.RbacV1().RoleBindings(team).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, name := range []string{admin, member, nobody} {
		made, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making the token of %s: %w", name, err)
		}
		tokens[name] = made.Status.Token
	}
	return nil
}

// waitFor polls until a condition holds.
func waitFor(ctx context.Context, what string, holds func() bool) error {
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s for %s", what, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

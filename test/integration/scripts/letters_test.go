package scripts

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/notify"
)

// letterNamespace is that of the one script whose jobs may use the channel "post".
const letterNamespace = "s-notify"

// mailbox keeps what is posted to it.
type mailbox struct {
	mu     sync.Mutex
	bodies []string
}

var letters mailbox

func (m *mailbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.bodies = append(m.bodies, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+"\n"+strings.TrimSpace(string(body)))
	}
}

func (m *mailbox) all() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.bodies, "\n") + "\n"
}

// startLetters has a channel lead to the mailbox, and runs what tells channels: that alone of gpu-controller, as no script wants the
// rest of it.
func startLetters(ctx context.Context) error {
	receiver := httptest.NewTLSServer(&letters) // for as long as the tests
	folder, err := os.MkdirTemp("", "letters-*")
	if err != nil {
		return err
	}
	trusted := filepath.Join(folder, "receiver.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
	if err := errors.Join(os.WriteFile(trusted, text, 0o600), os.Setenv("SSL_CERT_FILE", trusted)); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := openChannel(ctx, client, receiver.URL+"/hook/SECRET"); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := index.Register(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	err = (&notify.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder("gpu-controller"), Clock: clock.RealClock{},
		Notifier: notify.NewNotifier([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}), Health: notify.NewHealth(),
	}).SetUp(manager)
	if err != nil {
		return err
	}
	go func() {
		if err := manager.Start(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "telling channels:", err)
		}
	}()
	return nil
}

// openChannel sets the channel up as administrators do.
func openChannel(ctx context.Context, client kubernetes.Interface, address string) error {
	lists := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	policy, err := lists.Get(ctx, names.PolicyConfigMap, metav1.GetOptions{})
	if err != nil {
		return err
	}
	policy.Data["channels.post"] = letterNamespace
	if _, err := lists.Update(ctx, policy, metav1.UpdateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.ChannelSecret}, StringData: map[string]string{"post": address}}
	_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// posted waits until a text was posted, and writes all that was to a file, as norm writes it.
func posted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: posted TEXT FILE")
	}
	for deadline := time.Now().Add(patience); !strings.Contains(letters.all(), args[0]); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("it was not posted in %s; this was:\n%s", patience, letters.all())
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(normalized(letters.all())), 0o644))
}

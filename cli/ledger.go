package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// Environment variables that say where the ledger is.
const (
	envLedger   = "GPUCTL_LEDGER"
	envLedgerCA = "GPUCTL_LEDGER_CA"
)

// noLedger is the address that disables the ledger.
const noLedger = "none"

// ledgerOptions say where the ledger is: the flags, else the environment, else the configuration file, else the cluster.
type ledgerOptions struct {
	ledgerclient.Options
	// addressConfig is the cluster's ledger configuration, once read.
	addressConfig map[string]string
}

func (o *ledgerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Address, "ledger", "", "Address of the ledger, such as https://gpu-ledger.example.com, or none. "+
		"Your credentials of the kubeconfig are sent there")
	flags.StringVar(&o.CA, "ledger-ca", "", "File with the certificate that the ledger's is signed by")
	flags.BoolVar(&o.Insecure, "ledger-insecure-skip-tls-verify", false, "Accept any certificate of the ledger")
}

// findAddress reports whether the address of the ledger is known.
func (o *ledgerOptions) findAddress(ctx context.Context, f *Factory) (bool, error) {
	config, err := readUserConfig()
	if err != nil {
		return false, err
	}
	o.Address = cmp.Or(o.Address, os.Getenv(envLedger), config.Ledger)
	if !o.Insecure {
		o.CA = cmp.Or(o.CA, os.Getenv(envLedgerCA), config.LedgerCA)
	}
	if o.Address == "" {
		return o.discoverAddress(ctx, f)
	}
	return o.Address != noLedger, nil
}

// discoverAddress reads the address of the ledger from the cluster. If the cluster does not publish it, or this user may not read it, there is none.
func (o *ledgerOptions) discoverAddress(ctx context.Context, f *Factory) (bool, error) {
	said, err := o.readAddressConfig(ctx, f)
	if err != nil {
		return false, err
	}
	o.Address, o.CAData = said[ledger.KeyURL], []byte(said[ledger.KeyCA])
	if o.Address == "" || o.Address == noLedger {
		return false, nil
	}
	if err := o.Validate(); err != nil {
		return false, phrase.Errorf("ConfigMap %s/%s: %w", ledger.AddressNamespace, ledger.AddressConfigMap, err)
	}
	return true, nil
}

// readAddressConfig returns the addresses of the ledger and the log store that the cluster publishes. It is empty if they are not published or this
// user may not read them.
func (o *ledgerOptions) readAddressConfig(ctx context.Context, f *Factory) (map[string]string, error) {
	if o.addressConfig != nil {
		return o.addressConfig, nil
	}
	client, err := f.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	said, err := client.CoreV1().ConfigMaps(ledger.AddressNamespace).Get(ctx, ledger.AddressConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, phrase.Errorf("asking the cluster where its ledger is: %w", err)
	}
	o.addressConfig = maps.Clone(said.Data)
	if o.addressConfig == nil {
		o.addressConfig = map[string]string{}
	}
	return o.addressConfig, nil
}

// newClient returns a client for the ledger.
func (o *ledgerOptions) newClient(ctx context.Context, f *Factory) (*ledgerclient.Client, error) {
	known, err := o.findAddress(ctx, f)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, usageErrorf("it is not known where the ledger is: give --ledger URL, set $%s, or write \"ledger: URL\"\n"+
			"into gpuctl/config.yaml of your configuration directory; administrators can have the cluster say it to all:\n"+
			"manifests/ledger/address", envLedger)
	}
	if err := o.Validate(); err != nil {
		return nil, usageErrorf("--ledger: %w", err)
	}
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	return ledgerclient.New(config, o.Options)
}

// historyTimeout is how long to wait for the ledger's run history: it only supports another answer.
const historyTimeout = 5 * time.Second

// runHistory returns how long finished jobs have run, or nil if no ledger tells this user. The text says why a known ledger does not, if the user can
// do something about it.
func (o *ledgerOptions) runHistory(ctx context.Context, f *Factory) (*survival.History, phrase.Text) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	known, err := o.findAddress(ctx, f)
	if err == nil && !known {
		return nil, nil
	}
	var runs []ledger.Run
	if err == nil {
		var client *ledgerclient.Client
		if client, err = o.newClient(ctx, f); err == nil {
			runs, _, err = client.Runs(ctx, ledgerclient.Query{Limit: ledger.RunsToLearn})
		}
	}
	switch {
	case isLedgerRefusal(err): // the history covers all namespaces, which the user may not list either
		return nil, nil
	case err != nil:
		return nil, phrase.Textf("when jobs start is told by time limits alone, as the ledger does not say how long others have run: %v", err)
	}
	return ledger.Learn(runs), nil
}

// isLedgerRefusal reports whether the ledger refuses this user.
func isLedgerRefusal(err error) bool {
	var said *ledgerclient.Error
	return errors.As(err, &said) && (said.Status == http.StatusForbidden || said.Status == http.StatusUnauthorized)
}

// isLedgerUsage reports whether the ledger did not understand the query.
func isLedgerUsage(err error) bool {
	var said *ledgerclient.Error
	return errors.As(err, &said) && said.Status == http.StatusBadRequest
}

var relativeDays = regexp.MustCompile(`^(\d{1,5})(d|w)$`)

// parseMoment parses a time: a day, an exact time, or an age such as 30d, 2w or 12h.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if found := relativeDays.FindStringSubmatch(text); found != nil {
		count, _ := strconv.Atoi(found[1]) // the pattern allows only digits
		if found[2] == "w" {
			count *= 7
		}
		return now.AddDate(0, 0, -count), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageErrorf("--%s is %q, want how long ago, such as 30d or 12h, a day such as 2026-11-01,\nor a time such as 2026-11-01T12:00:00Z", flag, text)
}

// printLedgerGaps prints what may be missing from the ledger's answer.
func printLedgerGaps(io IOStreams, begin time.Time, gaps []ledger.Gap) {
	if !begin.IsZero() {
		io.printErr("note: the ledger begins on %s: what had ended by then is missing", begin.Format(time.RFC3339))
	}
	for _, gap := range gaps {
		io.printErr("note: the cluster could not be followed from %s to %s:\n  pods that began and ended within are missing",
			gap.From.Format(time.RFC3339), gap.To.Format(time.RFC3339))
	}
}

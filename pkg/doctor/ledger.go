package doctor

import (
	"net/url"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Ledger is what was found out of the ledger.
type Ledger struct {
	// Address is its configured address, "" if there is none.
	Address string
	// Problem is why it does not answer, empty if it does, or if unknown.
	Problem phrase.Text
}

// checkLedger checks whether the ledger answers. It returns false if it was not looked for. Jobs run without one.
func (f *Facts) checkLedger() (Check, bool) {
	const name = "ledger"
	switch found := f.Ledger; {
	case found == nil:
		return Check{}, false
	case len(found.Problem) > 0:
		return Check{
			Name: name, Status: Warning,
			Text: phrase.Textf("it does not answer, so gpuctl usage and get jobs --finished do not, and logs end with their pods: %s", found.Problem),
			Advice: phrase.Textf("if its address is right (--ledger, $GPUCTL_LEDGER, your configuration file, ConfigMap %s of %s), see why it is down: "+
				"kubectl -n kube-system get pods -l app.kubernetes.io/name=gpu-ledger", ledger.AddressConfigMap, ledger.AddressNamespace),
		}, true
	case found.Address == "":
		return Check{Name: name, Status: OK, Text: phrase.Textf("none is known; gpuctl usage and get jobs --finished need one")}, true
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("it answers at %s", redactedAddress(f.Ledger.Address))}, true
}

// redactedAddress is an address without credentials that a person may have included.
func redactedAddress(address string) phrase.Text {
	parsed, err := url.Parse(address)
	if err != nil {
		return phrase.Textf("its address")
	}
	return phrase.Quote(parsed.Host)
}

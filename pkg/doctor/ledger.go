package doctor

import (
	"net/url"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Ledger is what was found out of the ledger.
type Ledger struct {
	// Address is where it is said to be, "" where nothing says it.
	Address string
	// Problem is why it does not answer, "" if it does, or is not known.
	Problem string
}

// ledger says whether the ledger answers. It reports false where it was not looked for. Jobs run without one.
func (f *Facts) ledger() (Check, bool) {
	const name = "ledger"
	switch found := f.Ledger; {
	case found == nil:
		return Check{}, false
	case found.Problem != "":
		return Check{
			Name: name, Status: Warning,
			Text: "it does not answer, so gpuctl usage and get jobs --finished do not, and logs end with their pods: " + found.Problem,
			Advice: "if its address is right (--ledger, $GPUCTL_LEDGER, your configuration file, ConfigMap " + ledger.AddressConfigMap + " of " +
				ledger.AddressNamespace + "), see why it is down: kubectl -n kube-system get pods -l app.kubernetes.io/name=gpu-ledger",
		}, true
	case found.Address == "":
		return Check{Name: name, Status: OK, Text: "none is known; gpuctl usage and get jobs --finished need one"}, true
	}
	return Check{Name: name, Status: OK, Text: "it answers at " + hostOf(f.Ledger.Address)}, true
}

// hostOf is an address without what a person may have written into it for themselves.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "its address"
	}
	return parsed.Host
}

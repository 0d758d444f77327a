// Package situations has the situations in which a job does not run as data, testdata, and sees that gpuctl why names every cause in the order in which
// they have to be mended, with advice for each, and says nothing that is not so. It is pure: the situations are facts as the diagnosis reads them.
// test/integration/why makes such situations on a real API server.
package situations

// Package deploytest tests the files of the folder deploy. No container engine is needed: the tests run the build commands of
// the Dockerfile in folders, and the commands of compose.yaml as processes of this machine.
package deploytest

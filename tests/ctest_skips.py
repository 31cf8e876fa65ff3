"""A plugin for pytest: a run in which nothing failed and something was skipped is skipped to ctest too.

ctest would call it passed; its SKIP_RETURN_CODE (cmake/TrainwrightTests.cmake) is this code.
"""
SKIPPED = 77


def pytest_sessionfinish(session, exitstatus):
    # 5: nothing was left to run, as after a skip of a whole file.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus in (0, 5) and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED

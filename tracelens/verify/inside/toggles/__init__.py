"""Switches levers on inside a trial process, without a change of the user's files.

In: the toggles of the configuration, right after torch was imported. Out: one `ToggleRecord` per toggle, which says
what became of it. `installing.install` is called once per process, before the script goes on.

    toggle_record   what became of one toggle
    autocast        mixed precision around forward and loss
    flags           settings of torch, read before they are set
    loaders         arguments of DataLoaders, as their iterators are made
    modules         the modules that the loop calls: compiled, or in channels-last order
    optimizers      arguments of optimizers; how gradients are cleared
"""
